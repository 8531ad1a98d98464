//! Lines over a length, both axes logarithmic.

use std::ops::Range;

use mha_examples::picture::{Area, DrawResult, Picture, chart, font};
use plotters::prelude::*;

/// Panels over the same lengths.
#[derive(Clone, Debug)]
pub(super) struct LogLog {
    pub(super) title: String,
    /// From top to bottom.
    pub(super) panels: Vec<Panel>,
}

/// One quantity.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    /// The quantity and its unit.
    pub(super) label: String,
    pub(super) lines: Vec<Line>,
}

/// One implementation.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) color: (u8, u8, u8),
    /// Length and value, both above 0.
    pub(super) points: Vec<(f64, f64)>,
}

const PANEL_HEIGHT: u32 = 420;

impl Picture for LogLog {
    fn size(&self) -> (u32, u32) {
        (900, chart::TITLE_HEIGHT + PANEL_HEIGHT * self.panels.len() as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB> {
        let areas = chart::split_below_title(&self.title, self.panels.len(), area)?;
        let lengths = range(self.panels.iter().flat_map(Panel::points).map(|(length, _)| length));
        for (panel, area) in self.panels.iter().zip(areas) {
            panel.draw(lengths.clone(), &area)?;
        }
        Ok(())
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lines.iter().flat_map(|line| line.points.iter().copied())
    }

    fn draw<DB: DrawingBackend>(&self, lengths: Range<f64>, area: &Area<DB>) -> DrawResult<DB> {
        let values = range(self.points().map(|(_, value)| value));
        let mut chart =
            chart::builder(area).build_cartesian_2d(lengths.log_scale(), values.log_scale())?;
        chart
            .configure_mesh()
            .bold_line_style(chart::GRID)
            .light_line_style(TRANSPARENT)
            .y_labels(5)
            .x_desc("tokens")
            .y_desc(&self.label)
            .x_label_formatter(&length_label)
            .y_label_formatter(&|value| format!("{value}"))
            .axis_desc_style(font(17))
            .label_style(font(15))
            .draw()?;
        for Line { name, color: (red, green, blue), points } in &self.lines {
            chart::draw_curve(&mut chart, name, points, RGBColor(*red, *green, *blue))?;
        }
        chart::draw_legend(&mut chart, SeriesLabelPosition::LowerRight)
    }
}

/// Lengths that begin with 1, 2 or 5: labels of the others would lie upon one another.
fn length_label(length: &f64) -> String {
    let text = format!("{length:.0}");
    if text.starts_with(['1', '2', '5']) { text } else { String::new() }
}

/// From a little below the least value to a little above the largest.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, largest) = values.fold((f64::MAX, 0.0_f64), |(least, largest), value| {
        (least.min(value), largest.max(value))
    });
    if least > largest { 1.0..10.0 } else { least / 1.3..largest * 1.3 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_all_values_within() {
        let around = range([2.0, 8.0, 4.0].into_iter());
        assert!(around.start < 2.0 && around.end > 8.0);
        assert_eq!(range(std::iter::empty()), 1.0..10.0);
    }
}

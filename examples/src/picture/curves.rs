//! Curves over training steps: panels one above the other that share the horizontal axis.

use plotters::prelude::*;

use super::{Area, DrawResult, Picture, chart, font};

/// Panels over the same training steps.
#[derive(Clone, Debug)]
pub struct CurvesPicture {
    /// What the picture shows.
    pub title: String,
    /// The last step: the end of the horizontal axis.
    pub steps: usize,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// One quantity and its curves.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The quantity and its unit.
    pub label: String,
    /// The top of the vertical axis, which begins at 0; `None` for the highest value.
    pub top: Option<f64>,
    /// Drawn in this order.
    pub curves: Vec<Curve>,
}

/// One curve of a panel.
#[derive(Clone, Debug)]
pub struct Curve {
    /// What the legend calls it.
    pub name: String,
    /// Step and value.
    pub points: Vec<(usize, f64)>,
}

const PANEL_HEIGHT: u32 = 300;
const COLORS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(214, 85, 0), RGBColor(44, 130, 60)];

impl Picture for CurvesPicture {
    fn size(&self) -> (u32, u32) {
        (900, chart::TITLE_HEIGHT + PANEL_HEIGHT * self.panels.len() as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB> {
        let areas = chart::split_below_title(&self.title, self.panels.len(), area)?;
        for (panel, area) in self.panels.iter().zip(areas) {
            self.draw_panel(panel, &area)?;
        }
        Ok(())
    }
}

impl CurvesPicture {
    fn draw_panel<DB: DrawingBackend>(&self, panel: &Panel, area: &Area<DB>) -> DrawResult<DB> {
        let mut chart =
            chart::builder(area).build_cartesian_2d(0..self.steps.max(1), 0.0..panel.top())?;
        chart
            .configure_mesh()
            .bold_line_style(chart::GRID)
            .light_line_style(TRANSPARENT)
            .x_desc("training step")
            .y_desc(&panel.label)
            .y_labels(6)
            .y_label_formatter(&|value| format!("{value}"))
            .axis_desc_style(font(17))
            .label_style(font(15))
            .draw()?;
        for (curve, color) in panel.curves.iter().zip(COLORS.iter().cycle().copied()) {
            chart::draw_curve(&mut chart, &curve.name, &curve.points, color)?;
        }
        chart::draw_legend(&mut chart, SeriesLabelPosition::MiddleRight)
    }
}

impl Panel {
    fn top(&self) -> f64 {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(|&(_, value)| value);
        // A run that diverged has values that no axis can hold.
        let highest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        let above = if highest > 0.0 { 1.05 * highest } else { 1.0 };
        self.top.unwrap_or(above)
    }
}

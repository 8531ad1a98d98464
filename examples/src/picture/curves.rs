//! Curves over training steps: panels one above the other that share the horizontal axis.

use plotters::prelude::*;

use super::{Area, DrawResult, Picture, font};

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
const TITLE_HEIGHT: u32 = 44;
const COLORS: [RGBColor; 3] = [RGBColor(31, 119, 180), RGBColor(214, 85, 0), RGBColor(44, 130, 60)];

impl Picture for CurvesPicture {
    fn size(&self) -> (u32, u32) {
        (900, TITLE_HEIGHT + PANEL_HEIGHT * self.panels.len() as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB> {
        let (header, area) = area.split_vertically(TITLE_HEIGHT);
        header.draw(&Text::new(self.title.as_str(), (20, 14), font(22)))?;
        for (panel, area) in self.panels.iter().zip(area.split_evenly((self.panels.len(), 1))) {
            self.draw_panel(panel, &area)?;
        }
        Ok(())
    }
}

impl CurvesPicture {
    fn draw_panel<DB: DrawingBackend>(&self, panel: &Panel, area: &Area<DB>) -> DrawResult<DB> {
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .margin_right(28)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(0..self.steps.max(1), 0.0..panel.top())?;
        chart
            .configure_mesh()
            .bold_line_style(RGBColor(225, 225, 225))
            .light_line_style(TRANSPARENT)
            .x_desc("training step")
            .y_desc(&panel.label)
            .y_labels(6)
            .y_label_formatter(&|value| format!("{value}"))
            .axis_desc_style(font(17))
            .label_style(font(15))
            .draw()?;
        for (curve, color) in panel.curves.iter().zip(COLORS.iter().cycle().copied()) {
            let line = LineSeries::new(curve.points.iter().copied(), color.stroke_width(2));
            chart.draw_series(line)?.label(&curve.name).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 22, y)], color.stroke_width(3))
            });
            // A curve of a few points, such as one per epoch, would be easy to miss as a line.
            if curve.points.len() <= 40 {
                let dots = curve.points.iter().map(|&point| Circle::new(point, 4, color.filled()));
                chart.draw_series(dots)?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::MiddleRight)
            .background_style(WHITE.mix(0.85))
            .border_style(RGBColor(200, 200, 200))
            .label_font(font(15))
            .draw()
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

//! What charts of curves share.

use plotters::{
    chart::{ChartBuilder, ChartContext},
    coord::ranged1d::Ranged,
    prelude::*,
};

use super::{Area, DrawResult, font};

/// Space above the charts.
pub const TITLE_HEIGHT: u32 = 44;

/// Lines behind the curves.
pub const GRID: RGBColor = RGBColor(225, 225, 225);

/// A curve of more points than this is drawn without a dot for each.
const MOST_DOTS: usize = 40;

/// Draws the title and returns the areas of `panels` charts below it, from top to bottom.
///
/// # Errors
///
/// What the backend reports.
pub fn split_below_title<DB: DrawingBackend>(
    title: &str,
    panels: usize,
    area: &Area<DB>,
) -> Result<Vec<Area<DB>>, DrawingAreaErrorKind<DB::ErrorType>> {
    let (header, area) = area.split_vertically(TITLE_HEIGHT);
    header.draw(&Text::new(title, (20, 14), font(22)))?;
    Ok(area.split_evenly((panels, 1)))
}

/// A chart with room for its labels.
pub fn builder<'a, 'b, DB: DrawingBackend>(area: &'a Area<DB>) -> ChartBuilder<'a, 'b, DB> {
    let mut builder = ChartBuilder::on(area);
    builder.margin(10).margin_right(28).x_label_area_size(44).y_label_area_size(64);
    builder
}

/// Draws a line through the points and enters it in the legend.
///
/// # Errors
///
/// What the backend reports.
pub fn draw_curve<'a, DB, X, Y>(
    chart: &mut ChartContext<'a, DB, Cartesian2d<X, Y>>,
    name: &str,
    points: &[(X::ValueType, Y::ValueType)],
    color: RGBColor,
) -> DrawResult<DB>
where
    DB: DrawingBackend + 'a,
    X: Ranged<ValueType: Copy + 'static>,
    Y: Ranged<ValueType: Copy + 'static>,
{
    let line = LineSeries::new(points.iter().copied(), color.stroke_width(2));
    chart
        .draw_series(line)?
        .label(name)
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], color.stroke_width(3)));
    // A curve of a few points, such as one per epoch, would be easy to miss as a line.
    if points.len() <= MOST_DOTS {
        let dots = points.iter().map(|&point| Circle::new(point, 4, color.filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}

/// Draws the names of the curves.
///
/// # Errors
///
/// What the backend reports.
pub fn draw_legend<'a, DB, X, Y>(
    chart: &mut ChartContext<'a, DB, Cartesian2d<X, Y>>,
    position: SeriesLabelPosition,
) -> DrawResult<DB>
where
    DB: DrawingBackend + 'a,
    X: Ranged,
    Y: Ranged,
{
    chart
        .configure_series_labels()
        .position(position)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .label_font(font(15))
        .draw()
}

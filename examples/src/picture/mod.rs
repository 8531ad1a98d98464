//! Pictures as SVG and PNG, from one drawing function and with a font of our own.

mod attention;
pub mod chart;
mod curves;

use std::{error::Error, path::Path, sync::Once};

use plotters::{
    coord::Shift,
    prelude::*,
    style::{FontStyle, register_font},
};

pub use attention::{AttentionPicture, Head};
pub use curves::{Curve, CurvesPicture, Panel};

/// Something that can be drawn with any `plotters` backend.
pub trait Picture {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws the picture on `area`, which is white and has [`Picture::size`].
    ///
    /// # Errors
    ///
    /// What the backend reports.
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB>;
}

/// A drawing area in pixels.
pub type Area<DB> = DrawingArea<DB, Shift>;

/// What drawing returns.
pub type DrawResult<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Writes `picture` to `DIR/NAME.svg` and `DIR/NAME.png`.
///
/// # Errors
///
/// When a file cannot be written.
pub fn save<P: Picture>(picture: &P, dir: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    embed_font();
    let [svg, png] = ["svg", "png"].map(|extension| dir.join(format!("{name}.{extension}")));
    let draw_error =
        |path: &Path, error: String| format!("cannot draw {}: {error}", path.display());
    draw_on(picture, SVGBackend::new(&svg, picture.size())).map_err(|e| draw_error(&svg, e))?;
    draw_on(picture, BitMapBackend::new(&png, picture.size())).map_err(|e| draw_error(&png, e))?;
    Ok(())
}

fn draw_on<P: Picture, DB: DrawingBackend>(picture: &P, backend: DB) -> Result<(), String> {
    let area = backend.into_drawing_area();
    area.fill(&WHITE)
        .and_then(|()| picture.draw(&area))
        .and_then(|()| area.present())
        .map_err(|error| error.to_string())
}

/// Registers DejaVu Sans (a Latin subset), so that no system font is needed.
fn embed_font() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        let font = include_bytes!("../../assets/DejaVuSans-subset.ttf");
        assert!(
            register_font("sans-serif", FontStyle::Normal, font).is_ok(),
            "the embedded font is a TrueType font"
        );
    });
}

/// Text of `size` pixels in the embedded font.
pub fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

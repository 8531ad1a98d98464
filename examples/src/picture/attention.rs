//! Attention weights of several heads: a heat map for each, one row per query, one column per key.

use plotters::{
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Area, DrawResult, Picture, font};

/// Heat maps of heads that attend to the same tokens.
#[derive(Clone, Debug)]
pub struct AttentionPicture {
    /// What the picture shows.
    pub title: String,
    /// A few words under the title.
    pub subtitle: String,
    /// One short label per token; queries and keys are the same tokens.
    pub tokens: Vec<String>,
    /// Cells (query, key) to outline.
    pub outlined: Vec<(usize, usize)>,
    /// How many heads stand side by side.
    pub columns: usize,
    /// In reading order.
    pub heads: Vec<Head>,
}

/// One head's weights.
#[derive(Clone, Debug)]
pub struct Head {
    /// What stands above the heat map.
    pub title: String,
    /// Row by row, `tokens * tokens` values from 0 to 1.
    pub weights: Vec<f32>,
}

const HEADER: i32 = 76;
const MARGIN: i32 = 20;
/// Space left of a heat map for the axis' name and a short label, and above it for those and the title.
const LEFT: i32 = 58;
const TOP: i32 = 70;
/// About the width of a label's character and the height of a label.
const CHARACTER: i32 = 8;
const LINE: i32 = 15;
const BAR: i32 = 110;
const OUTLINE: RGBColor = RGBColor(230, 80, 0);
const FRAME: RGBColor = RGBColor(120, 120, 120);

impl Picture for AttentionPicture {
    fn size(&self) -> (u32, u32) {
        let width = self.columns() * self.panel().0 + BAR;
        let height = HEADER + self.rows() * self.panel().1 + MARGIN;
        (width as u32, height as u32)
    }

    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB> {
        area.draw(&Text::new(self.title.as_str(), (MARGIN, 14), font(22)))?;
        area.draw(&Text::new(self.subtitle.as_str(), (MARGIN, 46), font(16)))?;
        for (index, head) in self.heads.iter().enumerate() {
            let (column, row) = (index as i32 % self.columns(), index as i32 / self.columns());
            let (width, height) = self.panel();
            self.draw_head(
                head,
                (column * width + self.left(), HEADER + row * height + self.top()),
                area,
            )?;
        }
        self.draw_bar(area)
    }
}

impl AttentionPicture {
    fn columns(&self) -> i32 {
        self.columns.clamp(1, self.heads.len().max(1)) as i32
    }

    fn rows(&self) -> i32 {
        (self.heads.len() as i32 + self.columns() - 1) / self.columns()
    }

    /// Width and height of one head's part of the picture.
    fn panel(&self) -> (i32, i32) {
        (self.left() + self.side() + MARGIN, self.top() + self.side() + MARGIN)
    }

    /// Space left of a heat map.
    fn left(&self) -> i32 {
        LEFT.max(LEFT - 4 * CHARACTER + self.longest())
    }

    /// Space above it.
    fn top(&self) -> i32 {
        if self.is_upright() { TOP - LINE + self.longest() } else { TOP }
    }

    /// Width of the longest label.
    fn longest(&self) -> i32 {
        let longest = self.tokens.iter().map(|token| token.chars().count()).max();
        CHARACTER * longest.unwrap_or(0) as i32
    }

    /// Whether keys have labels that are read from below, since they are wider than a cell.
    fn is_upright(&self) -> bool {
        self.longest() + 5 > self.cell()
    }

    /// Width and height of one weight: large for few tokens, never under two pixels.
    fn cell(&self) -> i32 {
        (480 / self.tokens.len().max(1) as i32).clamp(2, 20)
    }

    fn side(&self) -> i32 {
        self.cell() * self.tokens.len() as i32
    }

    fn draw_head<DB>(&self, head: &Head, (left, top): (i32, i32), area: &Area<DB>) -> DrawResult<DB>
    where
        DB: DrawingBackend,
    {
        let (cell, side) = (self.cell(), self.side());
        let corners = |query: usize, key: usize| {
            let (x, y) = (left + key as i32 * cell, top + query as i32 * cell);
            [(x, y), (x + cell, y + cell)]
        };
        for (query, row) in head.weights.chunks(self.tokens.len()).enumerate() {
            for (key, &weight) in row.iter().enumerate() {
                area.draw(&Rectangle::new(corners(query, key), color(weight).filled()))?;
            }
        }
        for &(query, key) in &self.outlined {
            area.draw(&Rectangle::new(corners(query, key), OUTLINE.stroke_width(1)))?;
        }
        area.draw(&Rectangle::new([(left, top), (left + side, top + side)], FRAME))?;
        self.draw_labels(head, (left, top), area)
    }

    fn draw_labels<DB>(
        &self,
        head: &Head,
        (left, top): (i32, i32),
        area: &Area<DB>,
    ) -> DrawResult<DB>
    where
        DB: DrawingBackend,
    {
        let (cell, middle) = (self.cell(), self.side() / 2);
        let style = |size, horizontal, vertical| font(size).pos(Pos::new(horizontal, vertical));
        let from_below = |style: TextStyle<'static>| style.transform(FontTransform::Rotate270);
        let centered = |size, vertical| style(size, HPos::Center, vertical);
        let title = (left + middle, top - self.top() + 6);
        area.draw(&Text::new(head.title.as_str(), title, centered(17, VPos::Top)))?;
        let name = (left + middle, top - self.top() + 46);
        area.draw(&Text::new("key", name, centered(15, VPos::Bottom)))?;
        let name = (left - self.left() + 14, top + middle);
        area.draw(&Text::new("query", name, from_below(centered(15, VPos::Center))))?;

        let above = match self.is_upright() {
            true => from_below(style(14, HPos::Left, VPos::Center)),
            false => centered(14, VPos::Bottom),
        };
        let beside = style(14, HPos::Right, VPos::Center);
        // Cells smaller than a line have a label every few tokens.
        let stride = (LINE + cell - 1) / cell;
        for (index, token) in self.tokens.iter().enumerate().step_by(stride as usize) {
            let along = index as i32 * cell + cell / 2;
            area.draw(&Text::new(token.as_str(), (left + along, top - 5), above.clone()))?;
            area.draw(&Text::new(token.as_str(), (left - 7, top + along), beside.clone()))?;
        }
        Ok(())
    }

    /// The scale of colours, at the right edge.
    fn draw_bar<DB: DrawingBackend>(&self, area: &Area<DB>) -> DrawResult<DB> {
        let (left, top) = (self.columns() * self.panel().0 + 10, HEADER + self.top());
        let height = self.side().clamp(80, 240);
        for y in 0..height {
            let weight = 1.0 - y as f32 / (height - 1) as f32;
            let corners = [(left, top + y), (left + 20, top + y + 1)];
            area.draw(&Rectangle::new(corners, color(weight).filled()))?;
        }
        area.draw(&Rectangle::new([(left, top), (left + 20, top + height)], FRAME))?;
        let name = font(15).pos(Pos::new(HPos::Left, VPos::Bottom));
        area.draw(&Text::new("weight", (left, top - 12), name))?;
        for (label, y) in [("1.0", 0), ("0.5", height / 2), ("0.0", height)] {
            let style = font(14).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw(&Text::new(label, (left + 28, top + y), style))?;
        }
        Ok(())
    }
}

/// White for 0, through blue, to nearly black for 1: darker is always more, in print too.
fn color(weight: f32) -> RGBColor {
    const STOPS: [[f32; 3]; 4] =
        [[255.0, 255.0, 255.0], [150.0, 190.0, 225.0], [40.0, 105.0, 175.0], [8.0, 30.0, 80.0]];
    if weight.is_nan() {
        return RED; // a broken model's weights must not pass for zeros
    }
    let place = weight.clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let lower = (place as usize).min(STOPS.len() - 2);
    let mix = |channel: usize| {
        let (from, to) = (STOPS[lower][channel], STOPS[lower + 1][channel]);
        (from + (to - from) * (place - lower as f32)).round() as u8
    };
    RGBColor(mix(0), mix(1), mix(2))
}

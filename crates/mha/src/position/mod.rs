//! Where a token is: turned into queries and keys (rotary), or added to scores by distance (ALiBi
//! and T5).

mod alibi;
mod bounds;
mod choice;
mod ids;
mod rotary;
mod scaling;
mod t5;
mod table;
mod turns;
mod yarn;

pub use alibi::alibi_slopes;
pub use choice::Position;
pub use ids::Positions;
pub use rotary::{Rotary, RotaryLayout};
pub use scaling::RotaryScaling;
pub use t5::T5Buckets;
pub(crate) use table::RotaryTable;
pub use yarn::Yarn;

//! What the tests share: one table of cases, the oracle of a whole module, and how results are
//! compared.

mod backends;
mod cancel;
mod case;
mod cases;
mod compare;
mod draw;
mod layer;
mod measure;
mod numbers;
mod rules;
mod yardstick;

pub use backends::{AnyBackend, bools, floats, paths, tensor};
pub use case::{Case, Dense, Leaves};
pub use cases::cases;
pub use compare::{
    as_accurate_as_textbook, assert_as_accurate_as_textbook, assert_close, assert_same, largest,
    max_error, wide,
};
pub use draw::{CacheKind, Pieces, any_case, for_all_draws, pieces, seed};
pub use layer::{Call, Layer, Named, explained_steps, module_gradients};
pub use measure::Measure;
pub use numbers::{coins, numbers};
pub use rules::{sees, slopes};
pub use yardstick::Yardstick;

/// The code in the README runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The code in the pages of `docs/` runs.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../docs/architecture.md")]
    struct Architecture;
    #[doc = include_str!("../../docs/capabilities.md")]
    struct Capabilities;
    #[doc = include_str!("../../docs/checkpoints.md")]
    struct Checkpoints;
    #[doc = include_str!("../../docs/coming-from.md")]
    struct ComingFrom;
    #[doc = include_str!("../../docs/conventions.md")]
    struct Conventions;
    #[doc = include_str!("../../docs/model-families.md")]
    struct ModelFamilies;
    #[doc = include_str!("../../docs/performance.md")]
    struct Performance;
}

//! The cases: what is measured of every implementation that can do it.

use std::{fmt, str::FromStr};

use crate::op::Op;

/// Features of a token.
pub(crate) const D_MODEL: usize = 512;
/// Heads, of 64 features each.
pub(crate) const N_HEADS: usize = 8;
pub(crate) const HEAD_DIM: usize = D_MODEL / N_HEADS;

/// One operation on one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) op: Op,
    pub(crate) batch: usize,
    /// Tokens of a sequence; for [`Op::Decode`] those in the cache.
    pub(crate) length: usize,
    pub(crate) visible: Visible,
}

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visible {
    All,
    /// Those up to its own position.
    Causal,
    /// So many up to its own position, itself among them.
    Window(usize),
}

impl Case {
    pub(crate) fn new(op: Op, batch: usize, length: usize, visible: Visible) -> Self {
        Self { op, batch, length, visible }
    }

    pub(crate) fn decode(cached: usize) -> Self {
        Self::new(Op::Decode, 1, cached, Visible::Causal)
    }

    /// Whether the future is hidden, as it is in a window.
    pub(crate) fn causal(&self) -> bool {
        self.visible != Visible::All
    }

    pub(crate) fn window(&self) -> Option<usize> {
        match self.visible {
            Visible::Window(window) => Some(window),
            Visible::All | Visible::Causal => None,
        }
    }

    /// Tokens that the case needs in a sequence: those of the cache and the new one, or all.
    pub(crate) fn tokens(&self) -> usize {
        self.length + usize::from(self.op == Op::Decode)
    }

    /// What all scores together take in f32, in MB.
    pub(crate) fn scores_mb(&self) -> f64 {
        (self.batch * N_HEADS * self.length * self.length * size_of::<f32>()) as f64 / 1e6
    }

    /// As a table names it: `1 x 4096, train step, causal`.
    pub(crate) fn title(&self) -> String {
        let Self { batch, length, .. } = self;
        let size = match self.op {
            Op::Forward => format!("{batch} x {length}, forward"),
            Op::TrainStep => format!("{batch} x {length}, train step"),
            Op::Decode => return format!("{batch} x {length} cached, decode"),
        };
        match self.visible {
            Visible::All => size,
            Visible::Causal => format!("{size}, causal"),
            Visible::Window(window) => format!("{size}, window {window}"),
        }
    }
}

/// As `--only` meets it: `1x4096 train_step window256`, `1x4096 decode`.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {}", self.batch, self.length, self.op.name())?;
        match (self.op, self.visible) {
            (Op::Decode, _) => Ok(()),
            (_, Visible::All) => f.write_str(" full"),
            (_, Visible::Causal) => f.write_str(" causal"),
            (_, Visible::Window(window)) => write!(f, " window{window}"),
        }
    }
}

/// Reads what [`Display`](fmt::Display) writes.
impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).ok_or_else(|| format!("{text:?} is no case such as \"1x4096 forward causal\""))
    }
}

fn parse(text: &str) -> Option<Case> {
    let mut words = text.split(' ');
    let (batch, length) = words.next()?.split_once('x')?;
    let (batch, length) = (batch.parse().ok()?, length.parse().ok()?);
    let op = words.next()?;
    let op = Op::ALL.into_iter().find(|known| known.name() == op)?;
    let visible = match (op, words.next()) {
        (Op::Decode, None) | (Op::Forward | Op::TrainStep, Some("causal")) => Visible::Causal,
        (Op::Forward | Op::TrainStep, Some("full")) => Visible::All,
        (Op::Forward | Op::TrainStep, Some(window)) => {
            Visible::Window(window.strip_prefix("window")?.parse().ok()?)
        }
        _ => return None,
    };
    words.next().is_none().then(|| Case::new(op, batch, length, visible))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_case_writes_it_reads() {
        let cases = [
            (Case::new(Op::Forward, 4, 128, Visible::All), "4x128 forward full"),
            (Case::new(Op::TrainStep, 1, 7, Visible::Causal), "1x7 train_step causal"),
            (Case::new(Op::Forward, 1, 4096, Visible::Window(256)), "1x4096 forward window256"),
            (Case::decode(512), "1x512 decode"),
        ];
        for (case, text) in cases {
            assert_eq!(case.to_string(), text);
            assert_eq!(text.parse(), Ok(case));
        }
    }

    #[test]
    fn what_is_no_case_is_refused_by_name() {
        for text in ["", "4x128", "4x128 forward", "4 forward full", "1x2 decode full", "1x2 rest"]
        {
            let error = text.parse::<Case>().unwrap_err();
            assert!(error.contains(text), "{error}");
        }
        assert!("1x2 forward full more".parse::<Case>().is_err());
    }

    #[test]
    fn a_title_says_what_the_case_is() {
        let case = Case::new(Op::TrainStep, 1, 4096, Visible::Window(256));
        assert_eq!(case.title(), "1 x 4096, train step, window 256");
        assert_eq!(Case::decode(512).title(), "1 x 512 cached, decode");
        assert_eq!(Case::decode(512).tokens(), 513);
    }
}

//! What is compared, by name, and what each cannot do.

use serde::Serialize;

use crate::{
    case::{Case, Visible},
    op::Op,
};

/// One implementation of multi-head attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Implementation {
    MhaNdarray,
    MhaFlex,
    BurnNnNdarray,
    BurnNnFlex,
    Candle,
    Torch,
    Onnxruntime,
    /// No attention: the rate of a large matrix product, which no attention can pass.
    GemmLimit,
}

use Implementation::*;

/// Longest sequence for which an implementation that stores all scores is asked to.
const LONGEST_WITH_SCORES: usize = 8192;

/// Longest cache on which burn-nn decodes: a step is as slow as the whole sequence there.
const LONGEST_DECODE_OF_BURN_NN: usize = 2048;

impl Implementation {
    /// Ours first.
    pub(crate) const LAYERS: [Self; 7] =
        [MhaNdarray, MhaFlex, BurnNnNdarray, BurnNnFlex, Candle, Torch, Onnxruntime];

    pub(crate) fn name(self) -> &'static str {
        match self {
            MhaNdarray => "mha-ndarray",
            MhaFlex => "mha-flex",
            BurnNnNdarray => "burn-nn-ndarray",
            BurnNnFlex => "burn-nn-flex",
            Candle => "candle",
            Torch => "torch",
            Onnxruntime => "onnxruntime",
            GemmLimit => "gemm-limit",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::LAYERS.into_iter().find(|implementation| implementation.name() == name)
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, MhaNdarray | MhaFlex)
    }

    /// Which of ours it is measured against: the one on the same backend, or both, of which the
    /// faster counts.
    pub(crate) fn measured_against(self) -> &'static [Self] {
        match self {
            BurnNnNdarray => &[MhaNdarray],
            BurnNnFlex => &[MhaFlex],
            Candle | Torch | Onnxruntime => &[MhaNdarray, MhaFlex],
            MhaNdarray | MhaFlex | GemmLimit => &[],
        }
    }

    /// Why it is left out of a case, if it is.
    pub(crate) fn why_not(self, case: &Case) -> Option<String> {
        let windowed = matches!(case.visible, Visible::Window(_));
        match (self, case.op) {
            (Onnxruntime, Op::TrainStep | Op::Decode) => {
                Some("only its forward pass is measured".into())
            }
            (BurnNnNdarray | BurnNnFlex | Candle | Onnxruntime, _) if windowed => {
                Some("no window of its own; a mask costs it what the causal mask does".into())
            }
            (BurnNnNdarray | BurnNnFlex, Op::Decode) if case.length > LONGEST_DECODE_OF_BURN_NN => {
                Some("its cache lets all queries attend again, in seconds per token".into())
            }
            (BurnNnNdarray | BurnNnFlex | Candle | Onnxruntime, Op::Forward | Op::TrainStep)
                if case.length > LONGEST_WITH_SCORES =>
            {
                let gb = case.scores_mb() / 1e3;
                Some(format!("all scores, several times over, at {gb:.1} GB each"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_the_names() {
        for implementation in Implementation::LAYERS.into_iter().chain([GemmLimit]) {
            let json = serde_json::to_string(&implementation).unwrap();
            assert_eq!(json, format!("{:?}", implementation.name()));
        }
        assert_eq!(Implementation::named("mha-flex"), Some(MhaFlex));
        assert_eq!(Implementation::named("gemm-limit"), None);
    }

    #[test]
    fn only_ours_and_torch_do_long_sequences() {
        let case = Case::new(Op::Forward, 1, 16_384, Visible::All);
        let able = Implementation::LAYERS.into_iter().filter(|one| one.why_not(&case).is_none());
        assert_eq!(able.collect::<Vec<_>>(), [MhaNdarray, MhaFlex, Torch]);
        assert!(BurnNnFlex.why_not(&case).unwrap().contains("8.6 GB"));
    }
}

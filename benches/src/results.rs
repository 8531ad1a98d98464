//! What was measured, and what was left out.

use crate::{
    case::Case,
    implementation::Implementation,
    statistics::{least, median},
};

/// One implementation in one case.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) implementation: Implementation,
    pub(crate) case: Case,
    /// Of each run.
    pub(crate) seconds: Vec<f64>,
    /// How far one run raises the peak memory, in MB.
    pub(crate) peak_mb: Option<f64>,
}

/// All measurements, in the order of the cases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) measurements: Vec<Measurement>,
}

impl Measurement {
    pub(crate) fn median_ms(&self) -> Option<f64> {
        median(&self.seconds).map(|seconds| seconds * 1e3)
    }

    pub(crate) fn min_ms(&self) -> Option<f64> {
        least(&self.seconds).map(|seconds| seconds * 1e3)
    }
}

impl Results {
    /// The cases that anyone did, once each.
    pub(crate) fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for Measurement { case, .. } in &self.measurements {
            if !cases.contains(case) {
                cases.push(*case);
            }
        }
        cases
    }

    /// The implementations that did any, in their order.
    pub(crate) fn implementations(&self) -> Vec<Implementation> {
        let did = |one: &Implementation| self.measurements.iter().any(|m| m.implementation == *one);
        Implementation::LAYERS.into_iter().filter(did).collect()
    }

    pub(crate) fn find(&self, implementation: Implementation, case: &Case) -> Option<&Measurement> {
        self.measurements.iter().find(|m| m.implementation == implementation && m.case == *case)
    }

    pub(crate) fn median_ms(&self, implementation: Implementation, case: &Case) -> Option<f64> {
        self.find(implementation, case)?.median_ms()
    }

    /// The faster of these in a case, with its milliseconds.
    pub(crate) fn fastest(
        &self,
        implementations: &[Implementation],
        case: &Case,
    ) -> Option<(Implementation, f64)> {
        let times = implementations.iter().filter_map(|&implementation| {
            Some((implementation, self.median_ms(implementation, case)?))
        });
        times.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// How many times as long as ours an implementation takes.
    pub(crate) fn times_ours(&self, implementation: Implementation, case: &Case) -> Option<f64> {
        let (_, ours) = self.fastest(implementation.measured_against(), case)?;
        Some(self.median_ms(implementation, case)? / ours)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{case::Visible, op::Op};
    use Implementation::*;

    pub(crate) fn case() -> Case {
        Case::new(Op::Forward, 1, 4096, Visible::All)
    }

    /// Ours in 2 and 4 ms, burn-nn's on the slower of the two and torch in 6 ms.
    pub(crate) fn results() -> Results {
        let measured = [(MhaNdarray, 4.0), (MhaFlex, 2.0), (BurnNnNdarray, 6.0), (Torch, 6.0)];
        let measurements = measured.map(|(implementation, ms)| Measurement {
            implementation,
            case: case(),
            seconds: vec![ms / 1e3, ms / 1e3, ms / 4e3],
            peak_mb: (implementation == MhaFlex).then_some(12.5),
        });
        Results { measurements: measurements.to_vec() }
    }

    #[test]
    fn ratios_are_to_ours_on_the_same_backend_or_to_the_faster() {
        let results = results();
        assert_eq!(results.times_ours(BurnNnNdarray, &case()), Some(1.5));
        assert_eq!(results.times_ours(Torch, &case()), Some(3.0));
        assert_eq!(results.times_ours(BurnNnFlex, &case()), None);
        assert_eq!(results.times_ours(MhaFlex, &case()), None);
        assert_eq!(results.implementations(), [MhaNdarray, MhaFlex, BurnNnNdarray, Torch]);
    }
}

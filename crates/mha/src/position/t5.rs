//! T5's relative positions: near distances have a bucket each, far ones share.

use serde::{Deserialize, Serialize};

use crate::Error;

/// How the distance between a query and a key becomes one of a few buckets, each with a learned
/// bias per head.
///
/// Of the buckets in one direction, half hold one distance each; the others widen logarithmically
/// up to `max_distance`, and the last holds all beyond. T5 also has a score scale of 1.
///
/// Raffel et al. 2020, section 2.1: <https://arxiv.org/abs/1910.10683>.
///
/// # Example
///
/// ```
/// use mha::T5Buckets;
///
/// let encoder = T5Buckets::bidirectional();
/// assert_eq!(encoder.bucket(-3), 3); // three tokens back
/// assert_eq!(encoder.bucket(3), 16 + 3); // three ahead
///
/// let decoder = T5Buckets::causal().with_max_distance(64);
/// assert_eq!(decoder.bucket(-64), 31);
/// assert_eq!(decoder.bucket(3), 0); // keys ahead, hidden by a causal mask, have bucket 0
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct T5Buckets {
    /// Buckets of both directions together: at least 2 and below 65,536; at least 4 and even if
    /// `bidirectional`. Default: 32.
    #[serde(default = "default_n_buckets")]
    pub n_buckets: usize,
    /// The distance, in tokens, from which on all share a bucket: above half the buckets of one
    /// direction. Default: 128.
    #[serde(default = "default_max_distance")]
    pub max_distance: usize,
    /// Whether keys after the query have buckets of their own, as in T5's encoder.
    pub bidirectional: bool,
}

fn default_n_buckets() -> usize {
    32
}

fn default_max_distance() -> usize {
    128
}

impl T5Buckets {
    /// Buckets for keys before the query and as many for keys after it, as in T5's encoder.
    pub fn bidirectional() -> Self {
        Self {
            n_buckets: default_n_buckets(),
            max_distance: default_max_distance(),
            bidirectional: true,
        }
    }

    /// Buckets for keys before the query only, as in T5's decoder.
    pub fn causal() -> Self {
        Self { bidirectional: false, ..Self::bidirectional() }
    }

    /// Sets the number of buckets.
    pub fn with_n_buckets(mut self, n_buckets: usize) -> Self {
        self.n_buckets = n_buckets;
        self
    }

    /// Sets the distance, in tokens, from which on all share a bucket.
    pub fn with_max_distance(mut self, max_distance: usize) -> Self {
        self.max_distance = max_distance;
        self
    }

    /// The bucket, below `n_buckets`, of a key at `relative` = key position - query position.
    ///
    /// # Panics
    ///
    /// When `n_buckets` or `max_distance` is out of its range.
    #[track_caller]
    pub fn bucket(&self, relative: i64) -> usize {
        self.check().unwrap_or_else(|error| panic!("{error}"));
        let (count, ahead) = (self.one_way(), relative > 0);
        let first = if self.bidirectional && ahead { count } else { 0 };
        let distance = if ahead && !self.bidirectional { 0 } else { relative.unsigned_abs() };

        let exact = count / 2;
        if distance < exact as u64 {
            return first + distance as usize;
        }
        if distance >= self.max_distance as u64 {
            return first + count - 1;
        }
        // The order of operations is that of T5's code, where a rounding could move a threshold.
        let (d, e, max) = (distance as f64, exact as f64, self.max_distance as f64);
        let beyond = (d / e).ln() / (max / e).ln() * (count - exact) as f64;
        first + (exact + beyond as usize).min(count - 1)
    }

    /// The buckets of one direction.
    fn one_way(&self) -> usize {
        if self.bidirectional { self.n_buckets / 2 } else { self.n_buckets }
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.bidirectional && (self.n_buckets < 4 || self.n_buckets % 2 == 1) {
            let expected = "be even and at least 4 with both directions";
            return Err(Error::value("n_buckets", expected, self.n_buckets));
        }
        if self.n_buckets < 2 {
            return Err(Error::value("n_buckets", "be at least 2", self.n_buckets));
        }
        // A table of more is no table that anyone meant, and its size must not overflow.
        if self.n_buckets >= 65_536 {
            return Err(Error::value("n_buckets", "be below 65536", self.n_buckets));
        }
        let exact = self.one_way() / 2;
        if self.max_distance <= exact {
            let expected = format!("be above {exact}, half the buckets of one direction");
            return Err(Error::value("max_distance", expected, self.max_distance));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least distance of each bucket from `first` on.
    fn thresholds(bucket: impl Fn(i64) -> usize, first: usize) -> Vec<i64> {
        let distances = 1..1000;
        distances.filter(|&n| bucket(n) >= first && bucket(n) > bucket(n - 1)).collect()
    }

    #[test]
    fn known_thresholds() {
        let both = T5Buckets::bidirectional();
        let expected = [8, 12, 16, 23, 32, 46, 64, 91];
        assert_eq!(thresholds(|n| both.bucket(-n), 8), expected);
        assert_eq!(thresholds(|n| if n == 0 { 16 } else { both.bucket(n) }, 24), expected);
        let causal = T5Buckets::causal();
        let expected = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113];
        assert_eq!(thresholds(|n| causal.bucket(-n), 16), expected);
    }

    #[test]
    fn directions_and_extremes() {
        let both = T5Buckets::bidirectional();
        assert_eq!([-1, 0, 1, 7].map(|rel| both.bucket(rel)), [1, 0, 17, 23]);
        assert_eq!([i64::MIN, i64::MAX].map(|rel| both.bucket(rel)), [15, 31]);
        let causal = T5Buckets::causal();
        assert_eq!([-15, -1, 0, 1, i64::MAX].map(|rel| causal.bucket(rel)), [15, 1, 0, 0, 0]);
        assert_eq!(causal.bucket(i64::MIN), 31);
    }

    /// Whatever passes the check has buckets in range that grow with the distance.
    #[test]
    fn odd_sizes() {
        for start in [T5Buckets::bidirectional(), T5Buckets::causal()] {
            for n_buckets in 0..40 {
                for max_distance in [0, 1, 2, 3, 9, 20, 1_000_000, usize::MAX] {
                    let buckets = start.with_n_buckets(n_buckets).with_max_distance(max_distance);
                    if buckets.check().is_err() {
                        continue;
                    }
                    let mut last = 0;
                    for distance in (0..200).chain([1 << 40, i64::MAX]) {
                        let bucket = buckets.bucket(-distance);
                        assert!(bucket >= last && bucket < n_buckets, "{buckets:?} {distance}");
                        last = bucket;
                    }
                    assert_eq!(buckets.bucket(i64::MIN + 1), buckets.one_way() - 1);
                    assert!(buckets.bucket(i64::MAX) < n_buckets);
                }
            }
        }
    }

    #[test]
    fn refused() {
        let message = |buckets: T5Buckets| buckets.check().unwrap_err().to_string();
        let both = T5Buckets::bidirectional();
        let expected = "n_buckets must be even and at least 4 with both directions, got";
        assert_eq!(message(both.with_n_buckets(33)), format!("{expected} 33"));
        assert_eq!(message(both.with_n_buckets(2)), format!("{expected} 2"));
        let causal = T5Buckets::causal();
        assert_eq!(message(causal.with_n_buckets(1)), "n_buckets must be at least 2, got 1");
        assert_eq!(
            message(causal.with_max_distance(16)),
            "max_distance must be above 16, half the buckets of one direction, got 16"
        );
        assert!(causal.with_max_distance(17).check().is_ok());
    }

    #[test]
    #[should_panic = "n_buckets must be at least 2, got 0"]
    fn bucket_panics_with_the_error() {
        T5Buckets::causal().with_n_buckets(0).bucket(0);
    }

    #[test]
    fn serde() {
        let buckets = T5Buckets::causal().with_n_buckets(16).with_max_distance(99);
        let json = serde_json::to_string(&buckets).unwrap();
        assert_eq!(serde_json::from_str::<T5Buckets>(&json).unwrap(), buckets);
        let short = r#"{"bidirectional":true}"#;
        assert_eq!(serde_json::from_str::<T5Buckets>(short).unwrap(), T5Buckets::bidirectional());
        let wrong = r#"{"bidirectional":true,"buckets":8}"#;
        let error = serde_json::from_str::<T5Buckets>(wrong).unwrap_err().to_string();
        assert!(error.contains("unknown field `buckets`"), "{error}");
    }
}

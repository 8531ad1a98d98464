//! Numbers of many runs.

pub(crate) use mha_examples::statistics::median;

/// The least of the values; `None` without values.
pub(crate) fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_none_and_some() {
        assert_eq!(least(&[]), None);
        assert_eq!(least(&[3.0, 1.0, 5.0]), Some(1.0));
    }
}

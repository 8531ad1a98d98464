//! The ranges of numbers that more than one scaling has.

use crate::Error;

pub(super) fn check_factor(factor: f64) -> Result<(), Error> {
    if factor >= 1.0 && factor.is_finite() {
        return Ok(());
    }
    Err(Error::number("factor", "be at least 1 and finite", factor))
}

pub(super) fn check_length(name: &'static str, length: usize, least: usize) -> Result<(), Error> {
    if length >= least {
        return Ok(());
    }
    Err(Error::value(name, format!("be at least {least}"), length))
}

pub(super) fn check_divisors(
    name: &'static str,
    divisors: &[f64],
    pairs: usize,
) -> Result<(), Error> {
    let expected = || format!("be {pairs} numbers in [1e-6, 1e6], one for each pair of channels");
    if divisors.len() != pairs {
        return Err(Error::value(name, expected(), format!("{} numbers", divisors.len())));
    }
    match divisors.iter().find(|divisor| !(1e-6..=1e6).contains(*divisor)) {
        Some(divisor) => Err(Error::number(name, expected(), *divisor)),
        None => Ok(()),
    }
}

pub(super) fn check_range(
    name: &'static str,
    number: Option<f64>,
    least: f64,
) -> Result<(), Error> {
    match number {
        Some(number) if !(least..=1e6).contains(&number) => {
            Err(Error::number(name, format!("be in [{least:?}, 1e6]"), number))
        }
        _ => Ok(()),
    }
}

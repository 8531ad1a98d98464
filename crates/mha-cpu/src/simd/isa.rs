//! Which instructions this machine has.

/// A set of instructions that kernels exist for.
///
/// # Example
///
/// ```
/// use mha_cpu::Isa;
///
/// // The portable body runs everywhere; the best is the last of those that there are.
/// assert!(Isa::Portable.is_available());
/// assert_eq!(Isa::available().last(), Some(&Isa::best()));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isa {
    /// What every machine of the target has.
    Portable,
    /// AVX2 and FMA: 256 bits.
    Avx2,
    /// AVX-512 F, VL, DQ and BW: 512 bits.
    Avx512,
}

impl Isa {
    /// Those that this machine has, the best one last.
    pub fn available() -> &'static [Self] {
        let all: &'static [Self] = &[Self::Portable, Self::Avx2, Self::Avx512];
        let count = all.iter().take_while(|isa| isa.is_available()).count();
        &all[..count]
    }

    /// The best one that this machine has.
    pub fn best() -> Self {
        *Self::available().last().expect("the portable one is always there")
    }

    /// Whether this machine has it.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            Self::Avx2 => crate::machine::has_avx2(),
            Self::Avx512 => crate::machine::has_avx512(),
        }
    }
}

//! Which backends have kernels: found by type, since a model only says `B: Backend`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{OnceLock, PoisonError, RwLock};

use burn::tensor::backend::{Backend, BackendTypes};
use burn::tensor::ops::FloatTensor;
use burn::tensor::{DType, Shape};

use super::FusedAttention;
use super::fused::LinearOf;
use crate::backend::{Extent, KernelCall, Parts, TooLarge};

type AttentionOf<B> = fn(Parts<FloatTensor<B>>, KernelCall<B>) -> [FloatTensor<B>; 2];
type FitsOf<B> = fn(&<B as BackendTypes>::Device, &Extent) -> Result<(), TooLarge>;
type ReshapeOf<B> = fn(FloatTensor<B>, Shape) -> FloatTensor<B>;
type FirstOf<B> = fn(FloatTensor<B>, usize) -> FloatTensor<B>;
type PutOf<B> = fn(FloatTensor<B>, usize, FloatTensor<B>) -> FloatTensor<B>;

/// The functions of one backend.
#[derive(Debug)]
pub(crate) struct Entry<B: Backend> {
    pub(super) takes: fn(DType) -> bool,
    pub(super) attention: AttentionOf<B>,
    pub(super) fits: FitsOf<B>,
    pub(super) linear: fn() -> Option<LinearOf<B>>,
    pub(super) reshape: ReshapeOf<B>,
    pub(super) first: FirstOf<B>,
    pub(super) put: PutOf<B>,
}

// By hand: a derive would ask for `B: Copy`.
impl<B: Backend> Clone for Entry<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Entry<B> {}

impl<B: FusedAttention> Entry<B> {
    const fn of() -> Self {
        Self {
            takes: B::takes,
            attention: B::fused_attention,
            fits: <B as FusedAttention>::fits,
            linear: B::fused_linear,
            reshape: B::reshape,
            first: B::first,
            put: B::put,
        }
    }
}

type AnyEntry = dyn Any + Send + Sync;

static REGISTERED: OnceLock<RwLock<HashMap<TypeId, Box<AnyEntry>>>> = OnceLock::new();

/// Makes calls on the backend `B` use its kernels.
///
/// There is no need to for NdArray of f32 or f64 with integers of i64 or i32, for Flex, for Wgpu and
/// Cuda of f32 or f16, and for `Autodiff` over these with either of Burn's checkpointing strategies;
/// [`is_fused`] tells. The
/// element types are part of a backend's type, so that `NdArray<f32, i16>` is one to register, once,
/// as the program starts.
///
/// # Example
///
/// ```
/// use burn::backend::NdArray;
///
/// assert!(!mha::is_fused::<NdArray<f32, i16>>());
/// mha::register::<NdArray<f32, i16>>();
/// assert!(mha::is_fused::<NdArray<f32, i16>>());
/// ```
pub fn register<B: FusedAttention>() {
    let table = REGISTERED.get_or_init(Default::default);
    let mut table = table.write().unwrap_or_else(PoisonError::into_inner);
    table.insert(TypeId::of::<B>(), Box::new(Entry::<B>::of()));
}

/// Whether this crate has kernels for the backend `B`. Where it has none, or where two versions of
/// Burn are in one program, calls run in Burn's tensor operations, with the same meaning. What a single
/// call does, [`attention_path`](crate::attention_path) says.
///
/// # Example
///
/// ```
/// use burn::backend::{Autodiff, NdArray};
///
/// assert!(mha::is_fused::<Autodiff<NdArray>>());
/// ```
pub fn is_fused<B: Backend>() -> bool {
    lookup::<B>().is_some()
}

/// The kernels of a backend, if it has any.
pub(crate) fn lookup<B: Backend>() -> Option<Entry<B>> {
    let id = TypeId::of::<B>();
    if let Some(entry) = builtin(id) {
        return entry.downcast_ref().copied();
    }
    let table = REGISTERED.get()?.read().unwrap_or_else(PoisonError::into_inner);
    table.get(&id)?.downcast_ref().copied()
}

/// Not generic, so that kernels are compiled once, here, and not for each crate that calls them.
#[cfg(any(feature = "ndarray", feature = "flex", feature = "cube"))]
fn builtin(id: TypeId) -> Option<&'static AnyEntry> {
    use burn::backend::Autodiff;
    use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};

    macro_rules! find {
        ($($backend:ty),+ $(,)?) => {$(
            if id == TypeId::of::<$backend>() {
                return Some(const { &Entry::<$backend>::of() });
            }
        )+};
    }
    macro_rules! find_with_autodiff {
        ($($backend:ty),+ $(,)?) => {
            find!(
                $(
                    $backend,
                    Autodiff<$backend, NoCheckpointing>,
                    Autodiff<$backend, BalancedCheckpointing>,
                )+
            );
        };
    }
    #[cfg(feature = "ndarray")]
    use burn::backend::NdArray;
    #[cfg(feature = "ndarray")]
    find_with_autodiff!(
        NdArray<f32, i64>,
        NdArray<f32, i32>,
        NdArray<f64, i64>,
        NdArray<f64, i32>,
    );
    #[cfg(feature = "flex")]
    find_with_autodiff!(burn::backend::Flex);
    // Named by what `Wgpu` and `Cuda` stand for, which depends on Burn's feature `fusion`; that on
    // other crates' features, too.
    #[cfg(feature = "cube")]
    macro_rules! find_on_cube {
        ($($runtime:ty),+) => {$(
            find_with_autodiff!(
                burn_cubecl::CubeBackend<$runtime, f32, i32, u32>,
                burn_cubecl::CubeBackend<$runtime, f32, i32, u8>,
                burn_cubecl::CubeBackend<$runtime, half::f16, i32, u32>,
                burn_cubecl::CubeBackend<$runtime, half::f16, i32, u8>,
            );
            #[cfg(feature = "fusion")]
            find_with_autodiff!(
                burn_fusion::Fusion<burn_cubecl::CubeBackend<$runtime, f32, i32, u32>>,
                burn_fusion::Fusion<burn_cubecl::CubeBackend<$runtime, f32, i32, u8>>,
                burn_fusion::Fusion<burn_cubecl::CubeBackend<$runtime, half::f16, i32, u32>>,
                burn_fusion::Fusion<burn_cubecl::CubeBackend<$runtime, half::f16, i32, u8>>,
            );
        )+};
    }
    #[cfg(feature = "wgpu")]
    find_on_cube!(burn::backend::wgpu::WgpuRuntime);
    #[cfg(feature = "cuda")]
    find_on_cube!(cubecl::cuda::CudaRuntime);
    None
}

/// Without a backend that brings kernels.
#[cfg(not(any(feature = "ndarray", feature = "flex", feature = "cube")))]
fn builtin(_: TypeId) -> Option<&'static AnyEntry> {
    None
}

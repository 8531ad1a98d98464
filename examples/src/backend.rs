//! Choice of the backend on the command line: [`BackendName`] lists what was compiled in,
//! [`BackendName::run`] hands a generic [`Job`] the backend's type and device.

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::{error::Error, process::ExitCode};

use burn::tensor::backend::AutodiffBackend;
use clap::ValueEnum;

#[cfg(not(any(feature = "ndarray", feature = "flex", feature = "wgpu")))]
compile_error!("the examples need a backend: enable the feature `ndarray`, `flex` or `wgpu`");

/// A backend that was compiled in, as `--backend` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// `burn-ndarray`, on the CPU.
    #[cfg(feature = "ndarray")]
    Ndarray,
    /// `burn-flex`, on the CPU.
    #[cfg(feature = "flex")]
    Flex,
    /// `burn-wgpu`, on the GPU.
    #[cfg(feature = "wgpu")]
    Wgpu,
}

/// Work that is generic over the backend; `B::InnerBackend` is the same backend without gradients.
pub trait Job {
    /// What the work returns.
    type Output;

    /// Does the work on `device`.
    fn run<B: AutodiffBackend>(self, device: B::Device) -> Self::Output;
}

/// Why a backend cannot run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoAdapter;

impl std::fmt::Display for NoAdapter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "wgpu finds no graphics adapter here: install a Vulkan driver (for software Vulkan on \
             Debian or Ubuntu: `apt-get install mesa-vulkan-drivers libvulkan1`) or choose a CPU \
             backend with `--backend`",
        )
    }
}

impl Error for NoAdapter {}

/// The GPU when it was compiled in (whoever asks for the feature wants it), else NdArray, else Flex.
impl Default for BackendName {
    fn default() -> Self {
        #[cfg(feature = "wgpu")]
        return Self::Wgpu;
        #[cfg(all(feature = "ndarray", not(feature = "wgpu")))]
        return Self::Ndarray;
        #[cfg(all(feature = "flex", not(any(feature = "ndarray", feature = "wgpu"))))]
        return Self::Flex;
    }
}

impl std::fmt::Display for BackendName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = self.to_possible_value().expect("no variant is hidden");
        f.write_str(value.get_name())
    }
}

impl BackendName {
    /// Runs `job` on this backend's default device, with gradients available.
    ///
    /// # Errors
    ///
    /// [`NoAdapter`] when the backend has nothing to run on. The job has not begun then.
    pub fn run<J: Job>(self, job: J) -> Result<J::Output, NoAdapter> {
        use burn::backend::Autodiff;
        self.available()?;
        match self {
            #[cfg(feature = "ndarray")]
            Self::Ndarray => {
                Ok(job.run::<Autodiff<burn::backend::NdArray<f32>>>(Default::default()))
            }
            #[cfg(feature = "flex")]
            Self::Flex => Ok(job.run::<Autodiff<burn::backend::Flex>>(Default::default())),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(job.run::<Autodiff<burn::backend::Wgpu>>(Default::default())),
        }
    }

    /// Whether this backend has something to run on.
    ///
    /// # Errors
    ///
    /// [`NoAdapter`] when it has not.
    pub fn available(self) -> Result<(), NoAdapter> {
        match self {
            // The first tensor on a machine without an adapter would panic, so ask before it.
            #[cfg(feature = "wgpu")]
            Self::Wgpu if !has_adapter() => Err(NoAdapter),
            _ => Ok(()),
        }
    }

    /// Whether it computes in the machine's main memory.
    pub fn is_on_cpu(self) -> bool {
        match self {
            #[cfg(feature = "ndarray")]
            Self::Ndarray => true,
            #[cfg(feature = "flex")]
            Self::Flex => true,
            #[cfg(feature = "wgpu")]
            Self::Wgpu => false,
        }
    }
}

impl BackendName {
    /// [`run`](Self::run), and what the program says of it: nothing, or the error in one sentence.
    pub fn run_to_exit<J: Job<Output = Result<(), Box<dyn Error>>>>(self, job: J) -> ExitCode {
        let run = || self.run(job).map_err(Into::into).and_then(|outcome| outcome);
        let outcome = if self.is_on_cpu() { run() } else { on_a_device(run) };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// What a device cannot do, such as find memory for a tensor, Burn says in a panic when the next tensor is
/// read, maybe on a thread of its own: here the first panic becomes an error. With `RUST_BACKTRACE` set,
/// panics are shown as well.
fn on_a_device(run: impl FnOnce() -> Result<(), Box<dyn Error>>) -> Result<(), Box<dyn Error>> {
    static FIRST: OnceLock<String> = OnceLock::new();
    let show = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        FIRST.get_or_init(|| info.payload_as_str().unwrap_or("no reason given").to_string());
        if show {
            before(info);
        }
    }));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let reason = FIRST.get().map_or("no reason given", String::as_str);
        // What Rust and CubeCL put around it.
        let reason = reason.trim_start_matches("called `Result::unwrap()` on an `Err` value: ");
        let reason = reason.replace("No backtrace available", "");
        let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        let advice = "smaller sizes, or `--backend ndarray`, may do";
        Err(format!("the device stopped: {line}; {advice}").into())
    })
}

#[cfg(feature = "wgpu")]
fn has_adapter() -> bool {
    use burn::backend::wgpu::{
        WgpuRuntime,
        graphics::{AutoGraphicsApi, GraphicsApi},
    };
    use burn::cubecl::Runtime;
    !WgpuRuntime::enumerate_all_devices(&AutoGraphicsApi::backend()).is_empty()
}

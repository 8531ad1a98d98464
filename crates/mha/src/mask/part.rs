//! A mask for a part of a call's heads or queries.

use burn::tensor::{Int, Tensor, backend::Backend};

use super::Mask;

impl<B: Backend> Mask<B> {
    /// The mask of these heads alone.
    pub(crate) fn pick_heads(mut self, heads: &[usize]) -> Self {
        let index: Vec<i32> = heads.iter().map(|&head| head as i32).collect();
        for mask in &mut self.dense {
            if mask.hidden.dims()[1] != 1 {
                let device = mask.hidden.device();
                let index = Tensor::<B, 1, Int>::from_ints(index.as_slice(), &device);
                mask.hidden = mask.hidden.clone().select(1, index);
            }
        }
        self
    }

    /// The mask of the last `n` queries alone. Rules that count from the last query stay as they are.
    pub(crate) fn tail(mut self, n: usize) -> Self {
        for mask in &mut self.dense {
            let [_, _, rows, _] = mask.hidden.dims();
            if rows > n && rows != 1 {
                mask.hidden = mask.hidden.clone().narrow(2, rows - n, n);
            }
        }
        self
    }
}

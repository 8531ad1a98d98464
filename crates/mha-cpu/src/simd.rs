/// to come
pub trait Arithmetic {}
impl Arithmetic for f32 {}
impl Arithmetic for f64 {}

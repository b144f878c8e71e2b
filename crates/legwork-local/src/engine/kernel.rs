//! The innermost steps of the arithmetic, once in plain Rust and once with AVX2.
//!
//! Owns the choice between the two, made from what the processor says. It does not know how matrices are stored
//! beyond one block of one tile.

/// Values that share one scale, as in the Q8_0 format.
pub(super) const BLOCK: usize = 32;
/// Rows that are computed together.
pub(super) const TILE: usize = 16;

/// Numbers of a row that are computed together.
pub(super) const LANES: usize = 8;

/// Two neighbouring weights of one row.
pub(super) type Column = [i8; 2];
/// The weights of one block of a tile, and the scale of each row.
pub(super) type Weights<'a> = (&'a [[Column; TILE]; BLOCK / 2], &'a [f32; TILE]);
/// One block of `T` activation rows, and the scale of each.
pub(super) type Inputs<'a, const T: usize> = ([&'a [[i16; 2]; BLOCK / 2]; T], [f32; T]);

/// A way to compute.
pub(super) trait Kernel: Copy {
    /// Adds the product of one block to `sums`.
    fn block<const T: usize>(self, sums: &mut [[f32; TILE]; T], weights: Weights<'_>, inputs: Inputs<'_, T>);

    /// The sum of the products of two rows of equal length; a rest that fills no `LANES` numbers is left out.
    fn dot(self, left: &[f32], right: &[f32]) -> f32;

    /// Adds `factor` times `row` to `out`; a rest that fills no `LANES` numbers is left out.
    fn add_scaled(self, out: &mut [f32], factor: f32, row: &[f32]);
}

/// A computation that is the same for every kernel.
pub(super) trait Work {
    /// Must be inlined to the last call, so that the kernel's instructions reach its loops.
    fn run<K: Kernel>(self, kernel: K);
}

/// Runs the work with the best kernel of this processor.
pub(super) fn run<W: Work>(work: W) {
    #[cfg(target_arch = "x86_64")]
    if let Some(simd) = pulp::x86::V3::try_new() {
        return simd.vectorize(avx2::Vectorized { simd, work });
    }
    work.run(Plain);
}

/// Every processor; the compiler uses the vector instructions that all processors of the target have.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Kernel for Plain {
    #[inline(always)]
    fn block<const T: usize>(self, sums: &mut [[f32; TILE]; T], weights: Weights<'_>, inputs: Inputs<'_, T>) {
        let ((quants, scales), (columns, factors)) = (weights, inputs);
        for t in 0..T {
            let mut products = [0i32; TILE];
            for (rows, input) in quants.iter().zip(columns[t]) {
                for (product, row) in products.iter_mut().zip(rows) {
                    *product +=
                        i32::from(row[0]) * i32::from(input[0]) + i32::from(row[1]) * i32::from(input[1]);
                }
            }
            for lane in 0..TILE {
                sums[t][lane] += products[lane] as f32 * (scales[lane] * factors[t]);
            }
        }
    }

    #[inline(always)]
    fn dot(self, left: &[f32], right: &[f32]) -> f32 {
        // Sums side by side, because the compiler may not reorder the additions of one.
        let mut lanes = [0.0f32; LANES];
        for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                lanes[lane] += left[lane] * right[lane];
            }
        }
        lanes.iter().sum()
    }

    #[inline(always)]
    fn add_scaled(self, out: &mut [f32], factor: f32, row: &[f32]) {
        for (out, row) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0) {
            for lane in 0..LANES {
                out[lane] += factor * row[lane];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{Inputs, Kernel, LANES, TILE, Weights, Work};
    use pulp::{NullaryFnOnce, Simd, cast, f32x8, i8x16, i16x16, x86::V3};

    pub(super) struct Vectorized<W> {
        pub(super) simd: V3,
        pub(super) work: W,
    }

    impl<W: Work> NullaryFnOnce for Vectorized<W> {
        type Output = ();

        #[inline(always)]
        fn call(self) {
            self.work.run(Avx2(self.simd));
        }
    }

    /// A processor that was seen to have AVX2 and FMA.
    #[derive(Clone, Copy)]
    struct Avx2(V3);

    // Loops instead of closures: a closure is a function of its own, which would not get the instructions.
    impl Kernel for Avx2 {
        #[inline(always)]
        fn block<const T: usize>(
            self,
            sums: &mut [[f32; TILE]; T],
            weights: Weights<'_>,
            inputs: Inputs<'_, T>,
        ) {
            let Self(simd) = self;
            let ((quants, scales), (columns, factors)) = (weights, inputs);
            let mut products = [[simd.splat_i32x8(0); 2]; T];
            for (pair, rows) in quants.iter().enumerate() {
                let [upper, lower]: [i8x16; 2] = cast(*rows);
                let rows = [simd.convert_i8x16_to_i16x16(upper), simd.convert_i8x16_to_i16x16(lower)];
                for t in 0..T {
                    let input: i16x16 = cast(simd.splat_i32x8(cast(columns[t][pair])));
                    for half in 0..2 {
                        let product = simd.multiply_wrapping_add_adjacent_i16x16(rows[half], input);
                        products[t][half] = simd.wrapping_add_i32x8(products[t][half], product);
                    }
                }
            }
            let scales: [f32x8; 2] = cast(*scales);
            for t in 0..T {
                let mut row: [f32x8; 2] = cast(sums[t]);
                for half in 0..2 {
                    let scale = simd.mul_f32x8(scales[half], simd.splat_f32x8(factors[t]));
                    row[half] =
                        simd.mul_add_f32x8(simd.convert_i32x8_to_f32x8(products[t][half]), scale, row[half]);
                }
                sums[t] = cast(row);
            }
        }

        #[inline(always)]
        fn dot(self, left: &[f32], right: &[f32]) -> f32 {
            let Self(simd) = self;
            let mut sums = simd.splat_f32x8(0.0);
            for (left, right) in left.as_chunks::<LANES>().0.iter().zip(right.as_chunks::<LANES>().0) {
                sums = simd.mul_add_f32x8(cast(*left), cast(*right), sums);
            }
            simd.reduce_sum_f32s(sums)
        }

        #[inline(always)]
        fn add_scaled(self, out: &mut [f32], factor: f32, row: &[f32]) {
            let Self(simd) = self;
            let factor = simd.splat_f32x8(factor);
            for (out, row) in out.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0) {
                *out = cast(simd.mul_add_f32x8(factor, cast(*row), cast(*out)));
            }
        }
    }
}

//! Matrices in Q8_0 and their product with activations.
//!
//! Owns the packed weights and the one hot loop of the network. The loop exists in plain Rust and with AVX2, and the
//! choice is made while the program runs: no build flag is needed, and none can break another machine. Everything
//! runs on the calling thread. It does not know what a matrix is for.

use super::EngineError;
use super::kernel::{self, BLOCK, Column, Kernel, TILE};

/// Activations that share one pass over the weights.
const GROUP: usize = 4;
/// Bytes of one Q8_0 block on disk: a half-precision scale and 32 signed bytes.
const BLOCK_BYTES: usize = 2 + BLOCK;

/// A weight matrix, packed so that two neighbouring columns of 16 rows lie side by side.
pub(super) struct Matrix {
    rows: usize,
    cols: usize,
    /// `[tile][column pair][row in tile]`
    quants: Vec<[Column; TILE]>,
    /// `[tile][block][row in tile]`
    scales: Vec<[f32; TILE]>,
}

/// Activations in the same block format, widened to 16 bits for the multiplication.
pub(super) struct Activations {
    cols: usize,
    quants: Vec<[i16; 2]>,
    scales: Vec<f32>,
}

impl Matrix {
    /// Packs a row-major Q8_0 matrix.
    ///
    /// # Errors
    /// `EngineError::Shape` when the sizes do not fit the packing or the data.
    pub(super) fn pack(rows: usize, cols: usize, data: &[u8]) -> Result<Self, EngineError> {
        let blocks = cols / BLOCK;
        if !rows.is_multiple_of(TILE)
            || !cols.is_multiple_of(BLOCK)
            || data.len() != rows * blocks * BLOCK_BYTES
        {
            return Err(EngineError::Shape { rows, cols });
        }
        let tiles = rows / TILE;
        let mut matrix = Self {
            rows,
            cols,
            quants: vec![[[0; 2]; TILE]; tiles * cols / 2],
            scales: vec![[0.0; TILE]; tiles * blocks],
        };
        for (index, block) in data.chunks_exact(BLOCK_BYTES).enumerate() {
            matrix.place(index / blocks, index % blocks, block);
        }
        Ok(matrix)
    }

    fn place(&mut self, row: usize, block: usize, data: &[u8]) {
        let (tile, lane) = (row / TILE, row % TILE);
        let scale = tile * self.blocks() + block;
        self.scales[scale][lane] = half_to_f32(u16::from_le_bytes([data[0], data[1]]));
        let start = (tile * self.cols + block * BLOCK) / 2;
        for (pair, bytes) in data[2..].chunks_exact(2).enumerate() {
            self.quants[start + pair][lane] = [bytes[0].cast_signed(), bytes[1].cast_signed()];
        }
    }

    fn blocks(&self) -> usize {
        self.cols / BLOCK
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn cols(&self) -> usize {
        self.cols
    }

    /// Writes one row as plain numbers into `out`, which has one place per column.
    pub(super) fn row_into(&self, row: usize, out: &mut [f32]) {
        let (tile, lane) = (row / TILE, row % TILE);
        for (column, value) in out.iter_mut().enumerate() {
            let scale = self.scales[tile * self.blocks() + column / BLOCK][lane];
            let pair = self.quants[(tile * self.cols + column) / 2][lane];
            *value = f32::from(pair[column % 2]) * scale;
        }
    }

    /// Multiplies every activation row with the matrix: `out[token][row]`.
    pub(super) fn multiply(&self, activations: &Activations) -> Vec<f32> {
        assert_eq!(activations.cols, self.cols, "BUG: activations of another width");
        let mut out = vec![0.0; activations.len() * self.rows];
        kernel::run(Product { matrix: self, activations, out: &mut out });
        out
    }
}

/// One multiplication, waiting for the kernel that this processor can run.
struct Product<'a> {
    matrix: &'a Matrix,
    activations: &'a Activations,
    out: &'a mut [f32],
}

impl kernel::Work for Product<'_> {
    #[inline(always)]
    fn run<K: Kernel>(mut self, kernel: K) {
        let matrix = self.matrix;
        let tiles =
            matrix.quants.chunks_exact(matrix.cols / 2).zip(matrix.scales.chunks_exact(matrix.blocks()));
        for (tile, (quants, scales)) in tiles.enumerate() {
            let mut token = 0;
            while token + GROUP <= self.activations.len() {
                self.tile::<K, GROUP>(kernel, quants, scales, [tile, token]);
                token += GROUP;
            }
            while token < self.activations.len() {
                self.tile::<K, 1>(kernel, quants, scales, [tile, token]);
                token += 1;
            }
        }
    }
}

impl Product<'_> {
    /// The product of one tile of rows with `T` neighbouring activation rows.
    #[inline(always)]
    fn tile<K: Kernel, const T: usize>(
        &mut self,
        kernel: K,
        quants: &[[Column; TILE]],
        scales: &[[f32; TILE]],
        [tile, token]: [usize; 2],
    ) {
        let inputs: [(&[[i16; 2]], &[f32]); T] =
            std::array::from_fn(|offset| self.activations.token(token + offset));
        let mut sums = [[0.0f32; TILE]; T];
        for (block, (quants, scales)) in quants.as_chunks().0.iter().zip(scales).enumerate() {
            let columns = inputs.map(|(quants, _)| &quants.as_chunks().0[block]);
            let factors = inputs.map(|(_, scales)| scales[block]);
            kernel.block(&mut sums, (quants, scales), (columns, factors));
        }
        for (offset, sums) in sums.iter().enumerate() {
            let start = (token + offset) * self.matrix.rows + tile * TILE;
            self.out[start..start + TILE].copy_from_slice(sums);
        }
    }
}

impl Activations {
    /// Rounds rows of `cols` numbers to the block format.
    pub(super) fn quantize(values: &[f32], cols: usize) -> Self {
        let mut quants = Vec::with_capacity(values.len() / 2);
        let mut scales = Vec::with_capacity(values.len() / BLOCK);
        for block in values.chunks_exact(BLOCK) {
            let largest = block.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
            scales.push(largest / 127.0);
            quants.extend(
                block
                    .as_chunks::<2>()
                    .0
                    .iter()
                    .map(|pair| pair.map(|value| (value * inverse).round() as i16)),
            );
        }
        Self { cols, quants, scales }
    }

    fn len(&self) -> usize {
        2 * self.quants.len() / self.cols
    }

    #[inline(always)]
    fn token(&self, token: usize) -> (&[[i16; 2]], &[f32]) {
        let (pairs, blocks) = (self.cols / 2, self.cols / BLOCK);
        (&self.quants[token * pairs..(token + 1) * pairs], &self.scales[token * blocks..(token + 1) * blocks])
    }
}

/// IEEE half precision to single precision.
fn half_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        0 => f32::from_bits(sign | 0x3f80_0000) * (fraction as f32 / 16_777_216.0),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

#[cfg(test)]
mod tests {
    use super::kernel::{Plain, Work};
    use super::*;

    /// Rows of 32-value blocks with scale one half.
    fn q8(rows: usize, cols: usize) -> (Vec<u8>, Vec<f32>) {
        let (mut data, mut values) = (Vec::new(), Vec::new());
        for block in 0..rows * cols / BLOCK {
            data.extend_from_slice(&0x3800u16.to_le_bytes());
            for place in 0..BLOCK {
                let quant = ((block * 31 + place * 17) % 255) as i32 - 127;
                data.push((quant as i8).cast_unsigned());
                values.push(quant as f32 / 2.0);
            }
        }
        (data, values)
    }

    fn inputs(tokens: usize, cols: usize) -> Vec<f32> {
        (0..tokens * cols).map(|place| ((place * 37) % 101) as f32 / 50.0 - 1.0).collect()
    }

    #[test]
    fn a_row_comes_out_as_it_was_packed() {
        let (data, values) = q8(32, 64);
        let matrix = Matrix::pack(32, 64, &data).unwrap();
        let mut row = vec![0.0; 64];
        matrix.row_into(17, &mut row);
        assert_eq!(row, values[17 * 64..18 * 64]);
    }

    #[test]
    fn the_product_is_that_of_the_plain_numbers() {
        let (data, values) = q8(32, 64);
        let matrix = Matrix::pack(32, 64, &data).unwrap();
        let inputs = inputs(6, 64);
        let products = matrix.multiply(&Activations::quantize(&inputs, 64));
        for token in 0..6 {
            for row in 0..32 {
                let pairs = values[row * 64..][..64].iter().zip(&inputs[token * 64..][..64]);
                let exact: f32 = pairs.map(|(weight, input)| weight * input).sum();
                let found = products[token * 32 + row];
                assert!(
                    (found - exact).abs() < 0.01 * 64.0 * 32.0,
                    "row {row} of token {token}: {found}, not {exact}"
                );
            }
        }
    }

    #[test]
    fn all_kernels_agree() {
        let (data, _) = q8(48, 96);
        let matrix = Matrix::pack(48, 96, &data).unwrap();
        let activations = Activations::quantize(&inputs(5, 96), 96);
        let best = matrix.multiply(&activations);
        let mut plain = vec![0.0; best.len()];
        Product { matrix: &matrix, activations: &activations, out: &mut plain }.run(Plain);
        for (best, plain) in best.iter().zip(&plain) {
            assert!((best - plain).abs() <= 1e-4 * plain.abs().max(1.0), "{best} and {plain}");
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let (data, _) = q8(32, 64);
        assert!(matches!(Matrix::pack(31, 64, &data), Err(EngineError::Shape { .. })));
        assert!(matches!(Matrix::pack(32, 64, &data[1..]), Err(EngineError::Shape { .. })));
    }

    #[test]
    fn half_precision_is_read_exactly() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x3555, 0.333_251_95), (0x0001, 5.960_464_5e-8), (0, 0.0)]
        {
            assert_eq!(half_to_f32(bits), value);
        }
    }
}

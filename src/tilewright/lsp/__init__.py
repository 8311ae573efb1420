"""The language server: diagnostics as one types, what an instruction does and costs, predicted times over kernels."""

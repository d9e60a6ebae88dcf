import fc from 'fast-check'

/**
 * Loaded before each test file: property tests use the same cases in every run, so that a red run can be repeated.
 * The soak looks for new cases, from a seed that it prints.
 */
const seed = process.env.GANTRY_SOAK_SEED
fc.configureGlobal(seed === undefined ? { seed: 20_261_115 } : { seed: Number(seed), numRuns: 3_000 })

import fc from 'fast-check'

/** Loaded before each property test in a soak. */
fc.configureGlobal({ numRuns: 3_000, seed: Number(process.env.GANTRY_SOAK_SEED) })

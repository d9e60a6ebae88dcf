/** What `gantry serve` is made of; the bundle of the command leaves it out and loads it by the package's own name. */
export type { LoadedConfig } from '../config/config.ts'
export { loadConfig } from '../config/load.ts'
export { type ServeOptions, serve } from './serve.ts'
export { type VerifyRequest, verifyRecord } from './verify-audit.ts'

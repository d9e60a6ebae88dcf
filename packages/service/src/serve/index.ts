/** The parts of `gantry serve`; the CLI bundle excludes them and loads them by the package name. */
export type { LoadedConfig } from '../config/config.ts'
export { loadConfig } from '../config/load.ts'
export { type VerifyRequest, verifyRecord } from '../storage/audit/audit-file.ts'
export { type ServeOptions, serve } from './serve.ts'

/** Where programs run. Loaded with the first program that needs a sandbox: it brings its own files along. */
export type { Isolation, SandboxLimit, SandboxLimits, SandboxNetwork } from '@gantry/contract'
export type {
  Captured,
  Outcome,
  Probe,
  Program,
  ProgramMessage,
  Refusal,
  Runtime,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
export { createWasmRuntime, type WasmOptions } from '@gantry/sandbox-wasm/internal/wasm'
export { createSandboxes } from './create-sandboxes.ts'
export { createLanguages, type Language, type LanguageRow, type Languages } from './languages.ts'
export { createProcessRuntime, type ProcessOptions } from './process.ts'
export type { ProfileOptions } from './profiles.ts'
export type { Confinement, SandboxRequest } from './request.ts'
export { createRuntimes, type RunAnswer, type RuntimeInfo, type Runtimes } from './runtimes.ts'
export type { SandboxOptions, SandboxRuntimes } from './sandbox-options.ts'
export type { SessionAnswer, SessionInfo } from './session.ts'
export { createSessions, type Sessions, type SessionsOptions } from './sessions.ts'
export { createUnsafeHostRuntime, type UnsafeHostOptions } from './unsafe-host.ts'

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
export type {
  Confinement,
  RunAnswer,
  RuntimeInfo,
  Runtimes,
  SandboxRequest,
} from '@gantry/core/internal/runtimes/runtimes'
export { sandboxedBackend } from './backends/sandboxed.ts'
export { sessionBackend } from './backends/session.ts'
export { createRuntimes } from './create-runtimes.ts'
export { createSandboxes } from './create-sandboxes.ts'
export { createLanguages, type Language, type LanguageRow, type Languages } from './languages.ts'
export { createProcessRuntime, type ProcessOptions } from './process.ts'
export type { ProfileOptions } from './profiles.ts'
export type { SandboxOptions, SandboxRuntimes } from './sandbox-options.ts'
export type { SessionAnswer, SessionInfo } from './session.ts'
export { createSessions, type Sessions, type SessionsOptions } from './sessions.ts'
export { createUnsafeHostRuntime, type UnsafeHostOptions } from './unsafe-host.ts'

/** Sandboxes for programs. Loaded with the first program that needs one, because it brings its own files. */
export type { Isolation, SandboxLimit, SandboxLimits, SandboxNetwork } from '@gantry/contract'
export type {
  Captured,
  Outcome,
  Pausing,
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
export { createProcessRuntime, type ProcessOptions } from './drivers/process.ts'
export { createUnsafeHostRuntime, type UnsafeHostOptions } from './drivers/unsafe-host.ts'
export { createLanguages, type Language, type LanguageRow, type Languages } from './languages/languages.ts'
export type { NodePackages, PackageOptions, PythonPackages } from './packages/package-lists.ts'
export { createRuntimes } from './runtimes/create-runtimes.ts'
export { createSandboxes } from './runtimes/create-sandboxes.ts'
export type { SandboxOptions, SandboxRuntimes } from './runtimes/options.ts'
export type { ProfileOptions } from './selection/profiles.ts'
export type { SessionAnswer, SessionInfo } from './sessions/session.ts'
export { createSessions, type Sessions, type SessionsOptions } from './sessions/sessions.ts'

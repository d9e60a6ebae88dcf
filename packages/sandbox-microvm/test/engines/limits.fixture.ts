import type { SandboxLimits } from '@gantry/contract'

/** Generous, because an emulated processor on a busy machine is slow. */
export const limits: SandboxLimits = {
  wallMs: 240_000,
  cpuMs: 240_000,
  memoryBytes: 256 * 2 ** 20,
  pids: 48,
  diskBytes: 32 * 2 ** 20,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

import type { ProgramLimits, SandboxLimits } from '@gantry/contract'
import { didYouMean } from '../search/did-you-mean.ts'

/** What a program may use when nobody says otherwise. */
export const defaultProgramLimits = {
  toolCalls: 1_000,
  chainSteps: 1_000,
  depth: 4,
  parallel: 64,
  wallMs: 60_000,
  memoryBytes: 67_108_864,
  stdoutBytes: 1_048_576,
} as const satisfies ProgramLimits

export type SetLimits = Required<Omit<ProgramLimits, 'cpuMs'>> & Pick<ProgramLimits, 'cpuMs'>

/** What was asked for, with the defaults for the rest, cut to the host's ceilings; the sandboxes have maxima besides. */
export function programLimits(asked: ProgramLimits = {}, ceilings: ProgramLimits = {}): SetLimits {
  const wanted: SetLimits = { ...defaultProgramLimits, ...asked }
  const cut = Object.entries(ceilings).flatMap(([key, most]) => {
    const limit = wanted[key as keyof ProgramLimits] ?? most
    return most === undefined || limit === undefined ? [] : [[key, Math.min(limit, most)] as const]
  })
  return { ...wanted, ...Object.fromEntries(cut) }
}

/** What is wrong with ceilings from outside, at which key. */
export function ceilingIssues(ceilings: object): { readonly key: string; readonly message: string }[] {
  const known = [...Object.keys(defaultProgramLimits), 'cpuMs']
  return Object.entries(ceilings).flatMap(([key, value]) => {
    if (!known.includes(key)) return [{ key, message: `is not a limit${didYouMean(key, known)}` }]
    return value === undefined || (Number.isSafeInteger(value) && value >= 1)
      ? []
      : [{ key, message: 'must be a whole number of at least 1' }]
  })
}

/** The part that the sandbox holds; what it prints has one limit, however it does. */
export function sandboxLimits({ wallMs, cpuMs, memoryBytes, stdoutBytes }: SetLimits): Partial<SandboxLimits> {
  return {
    ...{ wallMs, memoryBytes, stdoutBytes, stderrBytes: stdoutBytes },
    cpuMs: cpuMs ?? wallMs,
  }
}

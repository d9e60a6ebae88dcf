import type { Outcome } from '@gantry/core/internal/runtimes/runtime'

/** What the self-test attacks came to, by their numbers in our list. */
export interface SelfTest {
  readonly refused: readonly string[]
  readonly open: readonly string[]
}

/** Reads what the launcher's `selftest` wrote; a line that is missing or odd counts as an attack that worked. */
export function readSelfTest({ stdout, exit }: Outcome): SelfTest {
  const lines = new TextDecoder().decode(stdout.bytes).split('\n').filter(Boolean)
  const named = (state: string): string[] =>
    lines.filter((line) => line.endsWith(` ${state}`)).map((line) => line.slice(0, -state.length - 1))
  const [refused, open] = [named('refused'), named('open')]
  const whole = 'code' in exit && exit.code === 0 && refused.length === lines.length && lines.length > 0
  return { refused, open: whole || open.length > 0 ? open : ['unknown'] }
}

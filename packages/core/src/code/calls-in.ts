import type { InnerOutcome } from '../backends/program-journal.ts'

/** How many calls were made within what came of a question, as far as it says; the question itself is not among them. */
export function callsIn(outcome: InnerOutcome): number {
  if (outcome.calls !== undefined) return outcome.calls
  const program = outcome.kind === 'result' ? outcome.result.program : undefined
  return program === undefined ? 0 : program.calls.length + (program.omitted ?? 0)
}

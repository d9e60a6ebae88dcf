import type { Invocation } from './parse.ts'

/**
 * Where a command reads and writes.
 * - `out` is for the answer alone, `err` for everything else; both resolve when the text is handed over, and go on
 *   without effect once the reader is gone.
 * - `signal` aborts when the user, or the reader of the output, does not want the answer any more.
 */
export interface Io {
  out(text: string): Promise<void>
  err(text: string): void
  /** Whether a person watches stderr, and how wide their window is. */
  readonly watched: boolean
  readonly columns: number
  readonly environment: NodeJS.ProcessEnv
  readonly folder: string
  readInput(limit: number): Promise<string>
  /** What nobody should see: typed unseen after a prompt on a terminal, else all of stdin. */
  askSecret(prompt: string, limit: number): Promise<string>
  readonly signal: AbortSignal
  /** From now on, what is thrown outside of every call is told this way and ends the process. */
  endOnStray(tell: (thrown: unknown) => void): void
}

/** Does what a command line asks for and answers with the exit code; what it throws is shown by `cli.ts`. */
export type Command = (invocation: Invocation, io: Io) => Promise<number>

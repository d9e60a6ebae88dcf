import type { Invocation } from './parse.ts'

/**
 * Where a command reads and writes.
 * - `out` is for the answer alone, `err` for everything else; both resolve when the text is written, and do
 *   nothing once the reader has closed the pipe.
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
  /** Reads a secret: typed without echo after a prompt on a terminal, else all of stdin. */
  askSecret(prompt: string, limit: number): Promise<string>
  readonly signal: AbortSignal
  /** From now on, an exception outside of every call is reported to `report` and ends the process. */
  endOnUncaught(report: (thrown: unknown) => void): void
}

/** Handles one command line and returns the exit code; `cli.ts` prints what it throws. */
export type Command = (invocation: Invocation, io: Io) => Promise<number>

import type { Invocation } from './parse.ts'

/**
 * Where a command reads and writes.
 * - `out` is for the output only, `err` for everything else. Both resolve when the text is written, and do
 *   nothing once the reader has closed the pipe.
 * - `signal` aborts on SIGINT or SIGTERM, or when the reader closes the pipe.
 */
export interface Io {
  out(text: string): Promise<void>
  err(text: string): void
  /** Whether stderr is a terminal, and its width. */
  readonly watched: boolean
  readonly columns: number
  readonly environment: NodeJS.ProcessEnv
  readonly folder: string
  readInput(limit: number): Promise<string>
  /** Reads a secret: typed without echo after a prompt on a terminal, else all of stdin. */
  askSecret(prompt: string, limit: number): Promise<string>
  readonly signal: AbortSignal
  /** After this call, an uncaught exception is passed to `report` and ends the process. */
  endOnUncaught(report: (thrown: unknown) => void): void
}

/** Handles one command line and returns the exit code; `cli.ts` prints what it throws. */
export type Command = (invocation: Invocation, io: Io) => Promise<number>

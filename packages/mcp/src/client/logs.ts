import type { Json, LogLevel } from '@gantry/contract'
import type { BackendContext, BackendHost } from '@gantry/core/internal/backends/backend'
import { limitedLines, plainText } from './log-lines.ts'

/** Far behind what is shown, so that this cut halves no secret that could be seen. */
const longestLine = 100_000
const perSecond = 50
const levels: { readonly [level: string]: LogLevel } = {
  debug: 'debug',
  info: 'info',
  notice: 'info',
  warning: 'warn',
}

/**
 * Where a server's words go. The protocol does not say which call a log message belongs to, so it goes to the call
 * while there is just one, and to the executor's subscribers otherwise: never to a caller whom it may not concern.
 */
export class Logs {
  readonly #calls = new Set<BackendContext>()
  readonly #tell: (line: string) => void

  constructor(server: string, host: BackendHost) {
    this.#tell = limitedLines((line) => host.report({ kind: 'log', message: `${server}: ${line}` }), perSecond)
  }

  /** A line for the executor's subscribers. */
  line(text: string): void {
    this.#tell(plainText(text, longestLine))
  }

  message(level: string, data: unknown): void {
    const [only] = this.#calls.size === 1 ? this.#calls : []
    const text = typeof data === 'string' ? data : undefined
    if (only === undefined) this.line(`${level}: ${text ?? JSON.stringify(data)}`)
    else if (text !== undefined) only.log(levels[level] ?? 'error', text)
    else only.log(levels[level] ?? 'error', 'The server logged this.', data as Json)
  }

  /** A call is with the server from here on, until it is told to have ended. */
  begin(context: BackendContext): void {
    this.#calls.add(context)
  }

  end(context: BackendContext): void {
    this.#calls.delete(context)
  }
}

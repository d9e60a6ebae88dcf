import type { Json, LogLevel } from '@gantry/contract'
import type { ProgressReport, ToolContext } from '../backends/backend.ts'
import { copyJson } from '../json/copy.ts'
import type { Run } from './run.ts'

const levels: ReadonlySet<unknown> = new Set<LogLevel>(['debug', 'info', 'warn', 'error'])
const longestMessage = 10_000

/** What the tool sees of a run; each function is made when it is asked for, so that it can be taken off. */
export class CallContext implements ToolContext {
  readonly #run: Run
  readonly attempt: number
  readonly secrets: ToolContext['secrets']

  constructor(run: Run, attempt: number, secrets: ToolContext['secrets']) {
    this.#run = run
    this.attempt = attempt
    this.secrets = secrets
  }

  get callId(): string {
    return this.#run.request.callId
  }
  get tool(): string {
    return this.#run.tool?.entry.id ?? this.#run.request.tool
  }
  get identity(): ToolContext['identity'] {
    return this.#run.request.identity
  }
  get idempotencyKey(): string {
    return this.#run.request.idempotencyKey ?? this.#run.request.callId
  }
  get signal(): AbortSignal {
    return this.#run.signal
  }

  get progress(): ToolContext['progress'] {
    return (progress, total, message) => {
      const report: ProgressReport = typeof progress === 'object' ? progress : given(progress, total, message)
      if (!Number.isFinite(report.progress)) throw new TypeError('progress must be a finite number')
      const shown = { kind: 'progress' as const, ...copyReport(report) }
      quietly(this.#run.report(shown))
    }
  }

  get log(): ToolContext['log'] {
    return (first: string, second?: Json, third?: Json) => {
      const named = levels.has(first) && typeof second === 'string'
      const level = named ? (first as LogLevel) : 'info'
      const message = (named ? String(second) : String(first)).slice(0, longestMessage)
      const data = named ? third : second
      const shown = data === undefined ? {} : { data: copyJson(data, { convert: true, dropped: { count: 0 } }) }
      quietly(this.#run.report({ kind: 'log', level, message, ...shown }))
    }
  }

  get send(): ToolContext['send'] {
    return (message) => {
      if (this.#run.ended) return
      const copied = copyJson(message, { convert: true, dropped: { count: 0 } })
      const shown = this.#run.redactor?.value(copied) ?? copied
      this.#run.effects = [...this.#run.effects, { kind: 'message', message: shown }]
    }
  }
}

function given(progress: number, total: number | undefined, message: string | undefined): ProgressReport {
  return { progress, ...(total === undefined ? {} : { total }), ...(message === undefined ? {} : { message }) }
}

function copyReport(report: ProgressReport): ProgressReport {
  const { progress, total, message } = report
  return given(progress, Number.isFinite(total) ? total : undefined, message?.slice(0, longestMessage))
}

/** Reports do not make a plain tool wait, so what their reader does with them is not the tool's concern. */
function quietly(work: void | Promise<void>): void {
  work?.catch(() => undefined)
}

import type { ProgramCall, ProgramLanguage, ProgramReport, Result } from '@gantry/contract'

/** Collects what a program does besides its output. */
export interface Reporter {
  called(number: number, asked: string, result: Result, recalled: boolean): void
  report(printed: string, truncated: boolean): ProgramReport
}

const mostCalls = 1_000

export function createReporter(language: ProgramLanguage): Reporter {
  const calls: ProgramCall[] = []
  let omitted = 0
  return {
    called(number, asked, { callId, tool, status, error, startedAt, durationMs }, recalled) {
      if (calls.length >= mostCalls) {
        omitted += 1
        return
      }
      const code = error === undefined ? {} : { code: error.code }
      const mark = recalled ? { recalled: true as const } : {}
      calls.push({ number, callId, tool: tool?.id ?? asked, status, ...code, startedAt, durationMs, ...mark })
    },
    report: (printed, truncated) => ({
      language,
      printed,
      ...(truncated ? { truncated: true as const } : {}),
      calls: calls.toSorted((a, b) => a.number - b.number),
      ...(omitted === 0 ? {} : { omitted }),
    }),
  }
}

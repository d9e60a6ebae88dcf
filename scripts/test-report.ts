import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import { Readable } from 'node:stream'
import { spec, type TestEvent } from 'node:test/reporters'

/** The end of a file's standard error, which is printed again when the file failed. */
const mostText = 4_000

/** Files whose tests take longer are listed. */
const longMs = 5_000

/**
 * The spec reporter, and after its closing count the files that took longest, and what each failed file left outside of its tests: how its process ended,
 * uncaught errors, which belong to no test because promises are untracked, and the end of its standard error. With
 * GANTRY_FAILED it also appends the path of each failed file to that file.
 */
export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const texts = new Map<string, string>()
  const ends = new Map<string, string>()
  const durations = new Map<string, number>()
  const watched = async function* (): AsyncGenerator<TestEvent> {
    for await (const event of events) {
      const { file = '' } = event.data as { readonly file?: string }
      if (event.type === 'test:stderr') keep(texts, file, event.data.message)
      if (event.type === 'test:diagnostic' && isUncaught(event.data.message)) {
        keep(texts, file, `${event.data.message}\n`)
      }
      const end = event.type === 'test:complete' ? endOf(event.data.details) : undefined
      if (end !== undefined) ends.set(file, end)
      if ((event.type === 'test:pass' || event.type === 'test:fail') && event.data.nesting === 0) {
        durations.set(file, (durations.get(file) ?? 0) + event.data.details.duration_ms)
      }
      yield event
    }
  }
  for await (const text of Readable.from(watched()).pipe(spec())) yield String(text)
  yield longest(durations)
  const { GANTRY_FAILED: list } = process.env
  for (const [file, end] of ends) {
    if (list !== undefined) appendFileSync(list, `${file}\n`)
    yield `\nOutside of the tests of ${file}, which ended with ${end}:\n${texts.get(file) ?? 'nothing was written'}\n`
  }
}

/** How the process of a failed file ended; undefined for a single test and for a file that passed. */
function endOf({ error }: { readonly error?: unknown }): string | undefined {
  if (typeof error !== 'object' || error === null || !('exitCode' in error)) return undefined
  const signal = 'signal' in error && typeof error.signal === 'string' ? error.signal : undefined
  return signal ?? `exit code ${String(error.exitCode)}`
}

/** One line for each long file, the longest first; '' when there is none. */
function longest(durations: ReadonlyMap<string, number>): string {
  const long = [...durations].filter(([, ms]) => ms > longMs).sort(([, one], [, other]) => other - one)
  const lines = long.map(([file, ms]) => `${String(Math.round(ms / 1_000)).padStart(5)} s  ${relative('.', file)}\n`)
  return lines.length === 0 ? '' : `\nFiles that took longer than ${longMs / 1_000} s\n${lines.join('')}`
}

function isUncaught(message: string): boolean {
  return message.includes('asynchronous activity')
}

function keep(texts: Map<string, string>, file: string, text: string): void {
  texts.set(file, `${texts.get(file) ?? ''}${text}`.slice(-mostText))
}

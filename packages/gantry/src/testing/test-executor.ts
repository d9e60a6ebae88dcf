import type { Issue } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { type Executor, memoryArtifacts, memorySecrets, type SecretSource } from '@gantry/core'
import { isFunction } from '@gantry/core/internal/json/plain'
import { refuse } from '@gantry/core/internal/options/options'
import { createCallIds } from '@gantry/core/internal/pipeline/ports'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { recordedEgress } from './recorded-egress.ts'
import type { RecordedExchange } from './recorded-exchange.ts'
import { createRecorder, isRecorder, type RecordedHttp, type Recorder, type RecordingOptions } from './recorded-http.ts'

/** Options of a test executor: those of an executor, with a fixed clock, fixed ids and recorded HTTP. */
export interface TestExecutorOptions
  extends Omit<ExecutorOptions, 'now' | 'exactNow' | 'ids' | 'random' | 'redactionKey' | 'egress'> {
  /** The time of the clock: milliseconds, a Date or an ISO text; 2026-01-01T00:00:00Z when absent. */
  readonly now?: number | string | Date
  /** Decides ids and the delays of retries: equal seeds give equal ones; 1 when absent. */
  readonly seed?: number
  /** Responses by request: a list, a file, or what `recordedHttp` returns; none when absent, so that every request fails. */
  readonly http?: readonly RecordedExchange[] | RecordingOptions | RecordedHttp
  /** Egress rules, which are checked as in production. */
  readonly egress?: Exclude<ExecutorOptions['egress'], { readonly request: unknown }>
}

/** The clock of a test executor; it stands still until the test moves it. */
export interface TestClock {
  /** Milliseconds since 1970. */
  now(): number
  advance(ms: number): void
}

/** An executor for tests. Closing it closes its recorded HTTP. */
export interface TestExecutor extends Executor {
  readonly clock: TestClock
  readonly http: RecordedHttp
}

/**
 * An executor whose results are the same in each run: its clock stands still, ids and retry delays follow from a seed, and
 * HTTP requests get recorded responses. Everything else is as in production: schemas, policy, egress rules, redaction.
 * Timeouts are measured by the real clock. Throws CONFIG_INVALID for wrong options.
 */
export function createTestExecutor(options: TestExecutorOptions = {}): TestExecutor {
  const { now, seed = 1, http = [], egress = {}, secrets, ...rest } = options
  refuse('options of createTestExecutor', optionIssues(options))
  const clock = createClock(now)
  const random = randomOf(seed)
  const ids = createCallIds(random)
  const recorder = isRecorder(http) ? http : createRecorder(http as readonly RecordedExchange[] | RecordingOptions)
  const guard = recordedEgress(recorder, egress)
  const executor = createExecutor({
    // A service stores files too, so a tool that attaches one can be tested.
    artifacts: memoryArtifacts({ ids, now: clock.now }),
    ...rest,
    ...(secrets === undefined ? {} : { secrets: concealed(secrets, recorder) }),
    egress: guard,
    now: clock.now,
    exactNow: true,
    ids,
    random,
    redactionKey: `a key of a test, from the seed ${seed}`,
  })
  return {
    ...executor,
    clock,
    http: recorder,
    async close(how) {
      await executor.close(how)
      await guard.close()
    },
  }
}

const firstDay = '2026-01-01T00:00:00.000Z'

function createClock(start: TestExecutorOptions['now'] = firstDay): TestClock {
  let at = timeOf(start)
  return {
    now: () => at,
    advance(ms) {
      if (!(ms >= 0 && Number.isFinite(ms)))
        throw new RangeError('A clock advances by a number of milliseconds, 0 or more.')
      at += ms
    },
  }
}

function timeOf(time: number | string | Date): number {
  return typeof time === 'number' ? time : new Date(time).getTime()
}

/** Mulberry32: numbers from 0 to 1 that follow from the seed. */
function randomOf(seed: number): () => number {
  let state = Math.trunc(seed) | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** The same secrets; each value is kept out of the recording. */
function concealed(secrets: NonNullable<ExecutorOptions['secrets']>, recorder: Recorder): SecretSource {
  const source = isSource(secrets) ? secrets : memorySecrets(secrets)
  if (!isSource(secrets)) for (const value of Object.values(secrets)) recorder.conceal(value)
  return {
    async get(name, request) {
      const value = await source.get(name, request)
      if (isText(value)) recorder.conceal(value)
      return value
    },
  }
}

function isSource(secrets: NonNullable<ExecutorOptions['secrets']>): secrets is SecretSource {
  return isFunction(secrets.get)
}

function optionIssues({
  now = firstDay,
  seed = 1,
  http = [],
  egress = {},
  secrets = {},
}: TestExecutorOptions): Issue[] {
  const issues: Issue[] = []
  const must = (fits: boolean, path: string, message: string): void => {
    if (!fits) issues.push({ path, message })
  }
  must(Number.isFinite(timeOf(now)), '/now', 'must be a time: milliseconds, a Date or an ISO text')
  must(Number.isSafeInteger(seed), '/seed', 'must be a whole number')
  must(
    isObject(http) || Array.isArray(http),
    '/http',
    'must be a list of exchanges, { file, mode }, or what recordedHttp returns',
  )
  must(isObject(egress) && !('request' in egress), '/egress', 'must be egress rules such as { allow: [...] }')
  must(
    isObject(secrets) && (isFunction(secrets.get) || Object.values(secrets).every(isText)),
    '/secrets',
    'must be texts by name, or a secret source with get',
  )
  return issues
}

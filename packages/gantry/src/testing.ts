/** Tests of your own tools: an executor with a fixed clock and ids, fake secrets and recorded HTTP. */
export type { RecordedBody, RecordedExchange } from './testing/recorded-exchange.ts'
export { type RecordedHttp, type RecordingOptions, recordedHttp, type SeenRequest } from './testing/recorded-http.ts'
export {
  createTestExecutor,
  type TestClock,
  type TestExecutor,
  type TestExecutorOptions,
} from './testing/test-executor.ts'

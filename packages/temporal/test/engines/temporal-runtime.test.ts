import { testRuntime } from '@gantry/conformance/internal/runtime'
import { lackingPrograms } from '@gantry/conformance/internal/sandbox-test'
import { startRuntime } from './temporal.fixture.ts'

const noGateway = 'an activity has one request and one answer; whole programs are handed over instead'

testRuntime('temporal', async () => ({ runtime: await startRuntime() }), {
  ...lackingPrograms,
  'javascript over tools': noGateway,
  'python over tools': noGateway,
})

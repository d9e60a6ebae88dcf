// A tool is tested without a network: a fixed clock and ids, a fake secret, and a recorded response.
import { join } from 'node:path'
import { createTestExecutor } from 'gantry/testing'
import { forecast, umbrella, weather } from './tools.ts'

const gantry = createTestExecutor({
  tools: [forecast, umbrella],
  backends: [weather],
  now: '2026-03-01T07:00:00Z',
  secrets: { WEATHER_TOKEN: 'fake-token' },
  http: { file: join(import.meta.dirname, 'forecast.recording.json') },
})

const oslo = await gantry.run('weather:umbrella', { city: 'Oslo' })
console.log(oslo.status, oslo.output)
console.log(oslo.callId, oslo.startedAt, `${oslo.durationMs} ms`)

// The test moves the clock.
gantry.clock.advance(60_000)
const bergen = await gantry.run('weather:umbrella', { city: 'Bergen' })
console.log(bergen.startedAt, bergen.output)

// A request without a record fails, and the error names it.
const { error } = await gantry.run('weather:forecast', { city: 'Bergen' })
console.log(error?.message)
console.log(gantry.http.requests)

await gantry.close()

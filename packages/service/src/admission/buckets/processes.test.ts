import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { freshKey, redisForFile } from '../../brokers/transports/redis/redis.fixture.ts'

const redis = redisForFile()
const run = promisify(execFile)
const program = join(import.meta.dirname, 'drain.fixture.ts')

const places: { readonly [name: string]: (t: TestContext) => Promise<string> } = {
  PostgreSQL: async (t) => (await postgresDatabase(t)).url,
  Redis: async (t) => (await redis.server(t)).url,
}

for (const [name, urlOf] of Object.entries(places)) {
  test(`${name}: processes that draw from one bucket together get its capacity, and not one token more`, async (t) => {
    const url = await urlOf(t)
    const key = freshKey()
    const drains = Array.from({ length: 3 }, () => run(process.execPath, [program, url, key, '500']))
    const got = (await Promise.all(drains)).map(({ stdout }) => Number(stdout))
    assert.equal(
      got.reduce((sum, tokens) => sum + tokens, 0),
      500,
    )
  })
}

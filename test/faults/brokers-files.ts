import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openPostgres } from '../../packages/service/src/storage/databases/postgres.ts'
import { startS3 } from '../../scripts/engines/s3.ts'
import { openBrokerSite, redisPlace, toxiproxy } from './brokers-places.ts'
import { openGate } from './brokers-unavailable.ts'
import type { Fault } from './fault.ts'
import { type Plan, pooled } from './load.ts'
import { until } from './processes.ts'
import type { Site } from './site.ts'

/** Calls whose results are too large for a row, each with a different text so that no two share a file. */
const large = (prefix: string, count: number): Plan[] =>
  Array.from({ length: count }, (_, n) => ({ id: `${prefix}-${n}`, tool: 'read', args: { fill: 100_000 + n } }))

const filesAway: Fault = {
  number: 12,
  name: 'large results are stored while S3 refuses, resets, is slow or dead, and no referenced file is missing',
  async run(t, size) {
    const s3 = await startS3()
    const link = await (await toxiproxy()).proxy(`127.0.0.1:${s3.port}`)
    const place = await redisPlace()
    const { region, bucket, accessKeyId, secretAccessKey } = s3
    const settings = { endpoint: `http://127.0.0.1:${link.port}`, region, bucket, accessKeyId, secretAccessKey }
    const config = `${place.config} s3: ${JSON.stringify({ ...settings, forcePathStyle: true })},`
    const site = await openBrokerSite(t, [place], { config, service: { slots: 16 } })
    const node = await site.start()
    const gate = await openGate(t, place, site)
    t.after(() => s3.stop())
    const count = size === 'quick' ? 6 : 75
    const ills: { readonly [name: string]: () => unknown } = {
      refused: link.refuse,
      reset: link.reset,
      slow: () => link.slow(500),
      dead: s3.kill,
    }
    await pooled(large('well', count), 16, (plan) => gate.ask(plan))
    for (const [name, begin] of Object.entries(ills)) {
      await begin()
      await pooled(large(name, count), 16, (plan) => gate.ask(plan))
      if (name === 'dead') await s3.restart()
      await link.heal()
    }
    assert.ok(await until(() => waitingFiles(site) === 0, 60_000), `files wait for S3: ${node.said}`)
    const files = await readFiles(site)
    t.diagnostic(`${files} files, every one of them there and whole`)
    assert.ok(files >= count, 'no answer was large enough for a file')
    await site.sound('S3 away', 1)
  },
}

function waitingFiles(site: Site): number {
  const folder = join(site.data, 'artifact-spool')
  return existsSync(folder) ? readdirSync(folder, { recursive: true, withFileTypes: true }).filter(isFile).length : 0
}

const isFile = (entry: { isFile(): boolean }): boolean => entry.isFile()

/** Reads every file that the database references, compares it with its digest, and returns their number. */
async function readFiles(site: Site): Promise<number> {
  const database = await openPostgres({ url: site.url ?? '', connections: 1 })
  const rows = await database.query<{ id: string; digest: string }>('select id, digest from artifacts')
  await database.close()
  const [node] = site.nodes
  assert.ok(node)
  await pooled(rows, 8, async ({ id, digest }) => {
    const response = await site.fetch(node, `/v1/artifacts/${encodeURIComponent(id)}`)
    const bytes = Buffer.from(await response.arrayBuffer())
    assert.equal(response.status, 200, `${id}: ${bytes.subarray(0, 200)}`)
    const hash = createHash('sha256').update(bytes).digest('hex')
    assert.ok(digest.endsWith(hash), `${id} is not what it was`)
  })
  return rows.length
}

export const fileFaults: readonly Fault[] = [filesAway]

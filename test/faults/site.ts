import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { type Client, createClient } from '@gantry/client'
import type { JsonObject } from '@gantry/contract'
import type { Database } from '../../packages/service/src/storage/databases/database.ts'
import { openPglite } from '../../packages/service/src/storage/databases/pglite.ts'
import { pgliteFolder, postgresDatabase } from '../../packages/service/test/databases.fixture.ts'
import { freePort } from '../../scripts/engines/keeper.ts'
import { assertSound, judge, type Reply, type Request, readStored, type Stored, type Verdict } from './ledgers.ts'
import { marked, type NodeOptions, type ServiceNode, startNode, until } from './processes.ts'
import { readDownstream, readLedger } from './tools.ts'

export type Engine = 'pglite' | 'postgres'

export interface SiteOptions {
  readonly engine: Engine
  /** The member `service` of the configuration. */
  readonly service?: JsonObject
  /** Source text of more members of the configuration. */
  readonly config?: string
  /** The data folder; by default one in the temporary folder. */
  readonly data?: string
  /** The database; by default a fresh one on the shared server. */
  readonly url?: string
  readonly database?: Database
  /** Environment of every node, such as its brokers. */
  readonly environment?: NodeJS.ProcessEnv
}

/** The environment of one fault: configuration, database, external ledgers, and the processes that use them. */
export interface Site {
  readonly folder: string
  readonly data: string
  /** The text of the key file. */
  readonly key: string
  readonly url: string | undefined
  readonly ledgers: { readonly requests: Request[]; readonly replies: Reply[] }
  readonly nodes: ServiceNode[]
  start(options?: Partial<NodeOptions>): Promise<ServiceNode>
  /** Starts a replacement of an ended node on the same port. */
  again(node: ServiceNode, options?: Partial<NodeOptions>): Promise<ServiceNode>
  /** Sends each request to a random living node. */
  readonly client: Client
  /** Sends requests to this node only. */
  clientOf(node: ServiceNode, options?: { readonly retries?: number }): Client
  fetch(node: ServiceNode, path: string, init?: RequestInit): Promise<Response>
  /** The sum of a metric over all living nodes. */
  metric(name: string): Promise<number>
  configure(config: string): void
  /** Stops all nodes, fails if processes or files are left behind, and judges ledgers and database. */
  verdict(): Promise<Verdict>
  stored(): Promise<Stored>
  /** Fails unless the verdict is sound and `part` of the calls ended ok; prints the counts. */
  sound(what: string, part?: number): Promise<Verdict>
}

export async function openSite(t: TestContext, options: SiteOptions): Promise<Site> {
  const { engine, service = {}, config = '' } = options
  const folder = mkdtempSync(join(tmpdir(), 'gantry-fault-'))
  const mark = randomBytes(6).toString('hex')
  const ledger = join(folder, 'ledger')
  const data = options.data ?? (engine === 'pglite' ? await pgliteFolder(t) : join(folder, 'data'))
  if (options.data !== undefined && engine === 'pglite') cpSync(await pgliteFolder(t), data, { recursive: true })
  mkdirSync(ledger)
  mkdirSync(join(folder, '.git'))
  const nodes: ServiceNode[] = []
  const roles: { [port: number]: Partial<NodeOptions> } = {}
  t.after(async () => {
    await Promise.all(nodes.map((node) => node.kill()))
    rmSync(folder, { recursive: true, force: true })
  })
  const real = engine === 'postgres' && options.url === undefined ? await postgresDatabase(t) : undefined
  const url = options.url ?? real?.url
  const database = options.database ?? real?.database
  const settings = { logLevel: 'info', graceMs: 10_000, ...service }
  const configure = (more: string): void =>
    writeFileSync(
      join(folder, 'gantry.config.ts'),
      `import { faultTools } from ${JSON.stringify(join(import.meta.dirname, 'tools.ts'))}
const tools = faultTools(${JSON.stringify(ledger)})
const service = ${JSON.stringify(settings)}
export default { tools, builtins: false, service, ${more} }
`,
    )
  configure(config)
  const start = async (more: Partial<NodeOptions> = {}): Promise<ServiceNode> => {
    const port = more.port ?? (await freePort())
    roles[port] = more
    const environment = { ...options.environment, ...more.environment }
    const node = startNode({ folder, data, port, databaseUrl: url, mark, ...more, environment })
    nodes.push(node)
    await node.ready
    return node
  }
  const keyOf = (): string => readFileSync(join(data, 'key'), 'utf8').trim()
  const addressOf = ({ port }: ServiceNode): string => `http://127.0.0.1:${port}`
  const living = (): ServiceNode[] =>
    nodes.filter(({ alive, port }) => alive && (roles[port]?.roles ?? ['api']).includes('api'))
  const anywhere = 'http://anywhere.invalid'
  const client = (): Client =>
    createClient({
      url: anywhere,
      key: keyOf(),
      retries: 0,
      fetch: (input, init) => {
        const there = living()
        const node = there[Math.floor(Math.random() * there.length)]
        if (node === undefined) return Promise.reject(new TypeError('fetch failed: no node lives'))
        return fetch(String(input).replace(anywhere, addressOf(node)), init)
      },
    })
  const site: Site = {
    folder,
    data,
    get key() {
      return keyOf()
    },
    url,
    nodes,
    ledgers: { requests: [], replies: [] },
    configure,
    start,
    again: (node, more) => start({ ...roles[node.port], port: node.port, ...more }),
    get client() {
      return client()
    },
    clientOf: (node, { retries = 0 } = {}) => createClient({ url: addressOf(node), key: keyOf(), retries }),
    fetch: (node, path, init = {}) =>
      fetch(`${addressOf(node)}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${keyOf()}`, 'content-type': 'application/json', ...init.headers },
      }),
    async metric(name) {
      const texts = await Promise.all(living().map(async (node) => (await site.fetch(node, '/metrics')).text()))
      return texts.reduce((sum, text) => sum + figure(text, name), 0)
    },
    async stored() {
      if (database !== undefined) return readStored(database)
      const embedded = await openPglite({ folder: data })
      return readStored(embedded).finally(() => embedded.close())
    },
    async verdict() {
      const codes = await Promise.all(nodes.filter(({ alive }) => alive).map((node) => node.stop()))
      assert.deepEqual(
        codes.filter((code) => code !== 0),
        [],
        `a node did not stop: ${nodes.at(-1)?.said}`,
      )
      assert.ok(await until(() => marked(mark).length === 0, 5_000), `processes are left: ${marked(mark)}`)
      const killed = new Map(nodes.flatMap(({ pid, killedAt }) => (killedAt === undefined ? [] : [[pid, killedAt]])))
      assert.deepEqual(leftovers(data, killed), [])
      const outside = { killed, effects: readLedger(ledger), downstream: readDownstream(ledger) }
      return judge({ ...site.ledgers, ...outside }, await site.stored())
    },
    async sound(what, part) {
      const verdict = await site.verdict()
      assertSound(verdict, what, part)
      t.diagnostic(`${what}: ${JSON.stringify(verdict.counts)}`)
      return verdict
    },
  }
  return site
}

/** Files that only a running process may have; a killed one cannot remove its `service.json`. */
function leftovers(data: string, killed: ReadonlyMap<number, number>): string[] {
  const list = (name: string): string[] => {
    const place = join(data, name)
    return existsSync(place) ? readdirSync(place).map((file) => `${name}/${file}`) : []
  }
  const own = readdirSync(data)
    .filter((name) => /^service\.json|lock\.pid|\.tmp$/.test(name))
    .filter((name) => name !== 'service.json' || !killed.has(JSON.parse(readFileSync(join(data, name), 'utf8')).pid))
  const drafts = list('artifacts').filter((name) => name.includes('draft') || name.endsWith('.tmp'))
  return [...own, ...list('spool'), ...drafts]
}

function figure(text: string, name: string): number {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

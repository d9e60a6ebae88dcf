import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { Admin } from '@platformatic/kafka'
import { cachedEngine } from './cache.ts'
import type { Certificate } from './certificates.ts'
import { engineFolder } from './folder.ts'
import { freePort, type KeptServer, keepServer } from './keeper.ts'
import { hasProgram, installPackages } from './packages.ts'

/** A Kafka of one broker, which is its own controller, on loopback ports. It creates no topics by itself. */
export interface KafkaServer extends KeptServer {
  /** `host:port`, for clients that need not say who they are. */
  readonly brokers: string
  /** Where clients have to say who they are (SASL/PLAIN, without TLS), and how. */
  readonly guarded: { readonly brokers: string; readonly username: string; readonly password: string }
  /** For clients that go by the `link`. */
  readonly linked: string | undefined
  /** Over TLS. */
  readonly secure: string | undefined
  createTopics(names: readonly string[], partitions?: number): Promise<void>
}

export interface KafkaServerOptions {
  /** More settings, such as `message.max.bytes`. */
  readonly settings?: { readonly [name: string]: string | number }
  /** Makes a way to an address of the broker, such as a proxy, and answers its port; a broker tells clients its address. */
  readonly link?: (upstream: string) => Promise<number>
  /** Also serves TLS on a port of its own, with clients of this authority alone when it is given. */
  readonly tls?: Certificate & { readonly clientCaFile?: string }
  /** Over TLS clients have to say who they are, by SCRAM-SHA-512, as the `guarded` ones do. */
  readonly scram?: boolean
}

interface Ports {
  readonly open: number
  readonly guarded: number
  readonly control: number
  /** Where the broker listens for those who come by the link, and the port that they know. */
  readonly linked?: { readonly from: number; readonly to: number }
  readonly secure?: number
}

export const kafkaVersion = '4.1.0'
const logger = '1.7.36'

export async function startKafka(options: KafkaServerOptions = {}): Promise<KafkaServer> {
  const engine = await kafkaEngine()
  const folder = engineFolder('kafka')
  try {
    cpSync(join(engine, 'storage'), join(folder, 'storage'), { recursive: true })
    const ports = {
      open: await freePort(),
      guarded: await freePort(),
      control: await freePort(),
      ...(options.link === undefined ? {} : { linked: await linkedPorts(options.link) }),
      ...(options.tls === undefined ? {} : { secure: await freePort() }),
    }
    const password = randomBytes(12).toString('hex')
    const file = join(folder, 'server.properties')
    const secured = { ...tlsSettings(folder, options.tls), ...(options.scram === true ? scramSettings : {}) }
    writeFileSync(file, settingsOf(folder, ports, password, { ...options.settings, ...secured }), { mode: 0o600 })
    if (options.scram === true) formatWithUser(engine, folder, file, password)
    const brokers = `127.0.0.1:${ports.open}`
    const kept = await keepServer({
      name: 'Kafka',
      folder,
      lastSignal: 'KILL',
      command: [...javaOf(engine), 'kafka.Kafka', file],
      isReady: () => answers(ports.open),
    })
    return Object.assign(kept, {
      brokers,
      linked: ports.linked === undefined ? undefined : `127.0.0.1:${ports.linked.from}`,
      secure: ports.secure === undefined ? undefined : `127.0.0.1:${ports.secure}`,
      guarded: { brokers: `127.0.0.1:${ports.guarded}`, username: 'gantry', password },
      createTopics: (names: readonly string[], partitions = 1) => createTopics(brokers, names, partitions),
    })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

const scramSettings = {
  'listener.security.protocol.map':
    'PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT,LINKED:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT',
  'listener.name.secure.sasl.enabled.mechanisms': 'SCRAM-SHA-512',
  'listener.name.secure.scram-sha-512.sasl.jaas.config':
    'org.apache.kafka.common.security.scram.ScramLoginModule required;',
}

/** A user of SCRAM is part of the storage. */
function formatWithUser(engine: string, folder: string, file: string, password: string): void {
  rmSync(join(folder, 'storage'), { recursive: true, force: true })
  const user = `SCRAM-SHA-512=[name=gantry,password=${password}]`
  const cluster = `g${randomBytes(16).toString('base64url').slice(1, 22)}`
  run(folder, [...javaOf(engine), 'kafka.tools.StorageTool', 'format', '-t', cluster, '-c', file, '--add-scram', user])
}

/** Key and certificate in one file, as it wants them. */
function tlsSettings(folder: string, tls: KafkaServerOptions['tls']): { readonly [name: string]: string } {
  if (tls === undefined) return {}
  const store = join(folder, 'server.pem')
  writeFileSync(store, [tls.keyFile, tls.certFile].map((file) => readFileSync(file, 'utf8')).join(''), { mode: 0o600 })
  const own = { 'ssl.keystore.type': 'PEM', 'ssl.keystore.location': store }
  if (tls.clientCaFile === undefined) return own
  const clients = { 'ssl.truststore.type': 'PEM', 'ssl.truststore.location': tls.clientCaFile }
  return { ...own, ...clients, 'ssl.client.auth': 'required' }
}

async function linkedPorts(link: (upstream: string) => Promise<number>): Promise<{ from: number; to: number }> {
  const to = await freePort()
  return { from: await link(`127.0.0.1:${to}`), to }
}

/** The jars and an empty storage, made once for each version by Maven, which Debian has where it is missing. */
export async function kafkaEngine(): Promise<string> {
  const missing = [
    ...(runs('java', '-version') ? [] : ['default-jre-headless']),
    ...(hasProgram('mvn') ? [] : ['maven']),
  ]
  if (missing.length > 0) installPackages(...missing)
  if (!runs('java', '-version')) throw new Error('Java is not installed; apt-get install default-jre-headless')
  return cachedEngine('kafka', kafkaVersion, async (draft) => {
    if (!hasProgram('mvn')) throw new Error('Kafka cannot be fetched without Maven; apt-get install maven')
    writeFileSync(join(draft, 'pom.xml'), pom)
    const copy = ['dependency:copy-dependencies', '-DoutputDirectory=libs', '-DincludeScope=runtime']
    run(draft, ['mvn', '-q', '-B', ...copy])
    const file = join(draft, 'format.properties')
    writeFileSync(file, settingsOf(draft, { open: 1, guarded: 2, control: 3 }, 'none'))
    const cluster = `g${randomBytes(16).toString('base64url').slice(1, 22)}`
    run(draft, [...javaOf(draft), 'kafka.tools.StorageTool', 'format', '-t', cluster, '-c', file])
  })
}

function javaOf(engine: string): string[] {
  return ['java', '-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-cp', join(engine, 'libs', '*')]
}

function runs(...[program, ...args]: readonly [string, ...string[]]): boolean {
  return spawnSync(program, args, { stdio: 'ignore' }).status === 0
}

function run(cwd: string, [program = '', ...args]: readonly string[]): void {
  const { status, error, stdout, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8', timeout: 600_000 })
  if (status !== 0) throw new Error(`${program} failed: ${error?.message ?? `${stdout}${stderr}`.slice(-2_000)}`)
}

const artifact = (group: string, name: string, of: string): string =>
  `<dependency><groupId>${group}</groupId><artifactId>${name}</artifactId><version>${of}</version></dependency>`

const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>gantry</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    ${artifact('org.apache.kafka', 'kafka_2.13', kafkaVersion)}
    ${artifact('org.slf4j', 'slf4j-simple', logger)}
  </dependencies>
</project>
`

function settingsOf(folder: string, ports: Ports, password: string, more: KafkaServerOptions['settings'] = {}): string {
  const secure = ports.secure === undefined ? '' : `,SECURE://127.0.0.1:${ports.secure}`
  const clients = `PLAINTEXT://127.0.0.1:${ports.open},GUARDED://127.0.0.1:${ports.guarded}${secure}`
  const { from, to } = ports.linked ?? {}
  const linked = (port: number | undefined): string => (port === undefined ? '' : `,LINKED://127.0.0.1:${port}`)
  const login = `org.apache.kafka.common.security.plain.PlainLoginModule required user_gantry="${password}";`
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.voters': `1@127.0.0.1:${ports.control}`,
    listeners: `${clients}${linked(to)},CONTROLLER://127.0.0.1:${ports.control}`,
    'advertised.listeners': `${clients}${linked(from)}`,
    'listener.security.protocol.map':
      'PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT,LINKED:PLAINTEXT,SECURE:SSL,CONTROLLER:PLAINTEXT',
    'controller.listener.names': 'CONTROLLER',
    'inter.broker.listener.name': 'PLAINTEXT',
    'listener.name.guarded.sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.guarded.plain.sasl.jaas.config': login,
    'log.dirs': join(folder, 'storage'),
    'auto.create.topics.enable': 'false',
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 1,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.num.partitions': 1,
    'transaction.state.log.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 500,
    // After a kill it lets itself in again once it has noticed its own death.
    'broker.session.timeout.ms': 2_000,
    'broker.heartbeat.interval.ms': 500,
    ...more,
  }
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/** It takes connections before it knows its topics; that it can name itself says that it is up. */
async function answers(port: number): Promise<boolean> {
  if (!(await connects(port))) return false
  const admin = adminOf(`127.0.0.1:${port}`, 0)
  try {
    return (await admin.metadata({ topics: [] })).brokers.size > 0
  } catch {
    return false
  } finally {
    await admin.close()
  }
}

function connects(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, '127.0.0.1')
    socket.on('error', () => resolve(false))
    socket.on('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

function adminOf(brokers: string, retries: number): Admin {
  return new Admin({ clientId: 'gantry-engine', bootstrapBrokers: [brokers], retries, retryDelay: 100 })
}

async function createTopics(brokers: string, names: readonly string[], partitions: number): Promise<void> {
  const admin = adminOf(brokers, 20)
  try {
    await admin.createTopics({ topics: [...names], partitions, replicas: 1 })
    await admin.metadata({ topics: [...names] })
  } finally {
    await admin.close()
  }
}

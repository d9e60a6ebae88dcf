import { readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bundleProgram } from './bundle.mjs'

/**
 * Tests that start fleets of services, run the suites and clients of other projects, or cut and freeze what a service
 * depends on. They take a fifth of the time of all tests, so that `npm test` leaves them to `npm run test:soak`.
 */
export const fleetTests: readonly string[] = [
  'packages/core/src/stalls.test.ts',
  'packages/service/src/brokers/transports/tls.test.ts',
  'packages/service/src/stalls.test.ts',
  'packages/service/test/approvals-kill.test.ts',
  'packages/service/test/attacks-kafka.test.ts',
  'packages/service/test/circuit-wave.test.ts',
  'packages/service/test/frozen-database.test.ts',
  'packages/service/test/identity-fleet.test.ts',
  'packages/service/test/mcp-clients.test.ts',
  'packages/service/test/mcp-conformance.test.ts',
  'packages/service/test/mcp-everything.test.ts',
  'packages/service/test/redis-fleet.test.ts',
  'packages/service/test/rolling-deploy.test.ts',
  'packages/service/test/tls.test.ts',
  'packages/service/test/tracing-collector.test.ts',
  'packages/service/test/unflushed.test.ts',
  'packages/service/test/user-quotas.test.ts',
  'test/call-walk.test.ts',
  'test/faults/gateways.test.ts',
]

/** More files in a process save little, and a hanging file fails its whole group. */
const mostFiles = 16
/** Files that start whole services take longer. */
const mostServices = 8

/** Packages whose tests start sandboxes: they count processes, close shared runtimes, and cost more than a start of Node. */
const ownProcess: readonly string[] = ['sandbox', 'sandbox-containers', 'sandbox-remote', 'sandbox-wasm', 'temporal']

/** Side effects of a test file on its process that would affect the next file. */
const changesProcess = new RegExp(
  [
    String.raw`^(?:before|beforeEach|afterEach)\(`,
    String.raw`process\.env(?:\.\w+|\[[^\]]+\]) = |assign\(process\.env|delete process\.env`,
    String.raw`process\.(?:chdir|on|once|emit)\(|\bmock\.|setFlagsFromString`,
    'memoryUsage|resourceUsage|getActiveResourcesInfo|eventLoop|[Ss]talls',
  ].join('|'),
  'm',
)

/** A test that starts engines or processes of its own gains nothing from sharing one. */
const startsOwn = /(?:serve|spawn)\.fixture|^(?:const .+ = )?await |^after\(/m

/** Tests on a database share the compiled code of PGlite, which costs more than their imports. */
const opensDatabase = /databases\.fixture|(?:calls|limits|approvals|identity|-site)\.fixture/

/**
 * The modules to run, in this order: one for each group of whole services in one process, one for each test file that
 * needs its own process, then one for each group of files of one package that share a process, because half of the
 * processor time of a small test file is the start of Node and its imports. A failure names the file it is in.
 */
export function groupTests(root: string, files: readonly string[], folder: string): string[] {
  const alone: string[][] = []
  const services: string[] = []
  const shared = new Map<string, string[]>()
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    const [, owner] = /^packages\/([^/]+)\/src\//.exec(file) ?? []
    const key = `${owner} ${opensDatabase.test(text)}`
    const ofServices = file.startsWith('packages/service/test/') && !startsOwn.test(text)
    const keeps = owner === undefined ? !ofServices : ownProcess.includes(owner)
    if (keeps || changesProcess.test(text)) alone.push([file])
    else if (ofServices) services.push(file)
    else shared.set(key, [...(shared.get(key) ?? []), file])
  }
  const small = [...shared.values()].flatMap((members) => split(members, mostFiles))
  return inOrder(root, [...split(services, mostServices), ...alone, ...small], folder)
}

/**
 * One module for each group of files, which imports them. Its name begins with its place, because `node --test` sorts what it
 * is given.
 */
export function inOrder(root: string, groups: readonly (readonly string[])[], folder: string): string[] {
  return groups.map((members, place) => {
    const name = basename(members[0] ?? '').replace(/\.(?:test|soak)\.ts$/, '')
    const module = join(folder, `${String(place).padStart(4, '0')}-${name}.test.mjs`)
    writeFileSync(module, members.map((file) => `import '${pathToFileURL(join(root, file))}'\n`).join(''))
    return module
  })
}

/** Groups of about the same size, each of every n-th file, so that slow neighbouring files are in different groups. */
function split(files: readonly string[], most: number): string[][] {
  const count = Math.ceil(files.length / most)
  return Array.from({ length: count }, (_, index) => files.filter((_, place) => place % count === index))
}

/** Bundles the `gantry` command of this checkout, for the services and commands that tests start. */
export function bundleCommand(root: string): Promise<void> {
  return bundleProgram(join(root, 'packages/gantry/src/main.ts'), join(root, 'node_modules/.cache/gantry/gantry.cjs'))
}

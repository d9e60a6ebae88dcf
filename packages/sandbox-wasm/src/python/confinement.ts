import { execFile } from 'node:child_process'

/** Programs and words to put before a command, so that it has less than its starter. */
export type Confinement = readonly string[]

const nobody = '65534'
/** Dies with its starter, also when that is killed, and gets no rights that it does not have. */
const frail = ['setpriv', '--no-new-privs', '--pdeathsig', 'KILL']
const asNobody = [
  '--reuid',
  nobody,
  '--regid',
  nobody,
  '--clear-groups',
  '--inh-caps',
  '-all',
  '--bounding-set',
  '-all',
]

/**
 * The strongest of what works here: for root, to be nobody; for everybody, to die with the starter. It is tried out on the
 * files that a host must be able to read, because who may read them is another's decision.
 */
export async function findConfinement(files: readonly string[], signal: AbortSignal): Promise<Confinement> {
  const candidates = process.getuid?.() === 0 ? [[...frail, ...asNobody], frail] : [frail]
  for (const candidate of candidates) if (await works(candidate, files, signal)) return candidate
  return []
}

async function works([program = '', ...words]: Confinement, files: readonly string[], signal: AbortSignal) {
  const test = ['/bin/sh', '-c', 'for file; do test -r "$file" || exit 1; done', 'sh', ...files]
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const env = { PATH: '/usr/bin:/bin' }
  execFile(program, [...words, ...test], { env, cwd: '/', signal, timeout: 10_000 }, (error) => resolve(error === null))
  return await promise
}

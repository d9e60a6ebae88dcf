import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import type { SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import { type Attack, whileRunning } from './attack.ts'
import { hostProcesses } from './host.ts'
import { started } from './proc.ts'
import { endOf, holds, hostPython, javascript, onHost, python, throughJavaScript } from './programs.ts'

const environment = {
  python: `${throughJavaScript}
import glob
seen = [dict(os.environ), by_javascript('JSON.stringify(process.env)')]
for path in glob.glob('/proc/*/environ'):
    try: seen.append(open(path, 'rb').read().decode('latin1'))
    except OSError: pass
return seen`,
  javascript: `
const host = globalThis.constructor.constructor('return process')()
return [{ ...process.env }, { ...host.env }, { ...host.getBuiltinModule?.('process').env }]`,
}

/** While our own environment holds a secret. */
async function withSecret<T>(use: (secret: string) => Promise<T>): Promise<T> {
  const secret = `canary-${randomUUID()}`
  process.env.GANTRY_ATTACK_SECRET = secret
  try {
    return await use(secret)
  } finally {
    delete process.env.GANTRY_ATTACK_SECRET
  }
}

const workerEnvironment: Attack = {
  number: 75,
  title: "read the worker's environment, with its secrets",
  attempt: ({ inside, kind }) =>
    withSecret(async (secret) => {
      const jobs: SandboxJob[] = [
        python(environment.python),
        ...(kind === 'wasm' ? [javascript(environment.javascript)] : []),
      ]
      for (const job of jobs) {
        const outcome = await inside(job)
        if (!Array.isArray(outcome.value)) throw new Error('The program did not get to its end.')
        if (holds(outcome, secret)) return 'succeeded'
      }
      return 'blocked'
    }),
  // A child that is started as children are.
  control: () =>
    withSecret(async (secret) => endOf(JSON.stringify(onHost(python(environment.python))).includes(secret))),
}

const waiting = `
import time
print('on', flush=True)
time.sleep(15)`

const shownArguments: Attack = {
  number: 76,
  title: 'code, input and environment of a job in the arguments of a process, readable by every user',
  async attempt({ runtime, note }) {
    const secrets = { code: randomUUID(), stdin: randomUUID(), env: randomUUID(), file: randomUUID() }
    const jobs: readonly SandboxJob[] = [
      python(`${waiting}\n# ${secrets.code}`),
      { program: { kind: 'code', language: 'bash', code: `echo on; sleep 15 # ${secrets.code}` } },
      { program: { kind: 'script', script: `echo on; sleep 15 # ${secrets.code}` } },
      javascript(`console.log('on'); await new Promise((done) => setTimeout(done, 15000)) // ${secrets.code}`),
    ]
    for (const job of jobs) {
      const given: SandboxJob = {
        ...job,
        stdin: Buffer.from(secrets.stdin),
        env: { TOKEN: secrets.env },
        files: new Map([['file', Buffer.from(secrets.file)]]),
      }
      const shown = await whileRunning(runtime, given, () => wordsWith(Object.values(secrets)))
      note(`shown by ${shown.join(', ')}`)
      if (shown.length > 0) return 'succeeded'
    }
    return 'blocked'
  },
  async control() {
    const secret = randomUUID()
    const child = spawn(hostPython, ['-c', `import time\ntime.sleep(10) # ${secret}`], { stdio: 'ignore' })
    try {
      await started(child)
      return endOf(wordsWith([secret]).length > 0)
    } finally {
      child.kill('SIGKILL')
    }
  },
  explained: { wasm: 'No process is started for a program.' },
}

/** Processes whose words hold one of the texts. */
function wordsWith(texts: readonly string[]): string[] {
  return hostProcesses()
    .filter(({ command }) => command.some((word) => texts.some((text) => word.includes(text))))
    .map(({ command }) => command[0] ?? '')
}

/** 75–76: secrets of the worker and of the job. */
export const environmentAttacks: readonly Attack[] = [workerEnvironment, shownArguments]

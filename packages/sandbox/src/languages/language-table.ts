import type { Command, Language } from './language.ts'

/** Node's experiments are said to be some on stderr; fewer helpers leave more of a limit on processes to the program. */
function nodeDriver(language: string): Command {
  return ['{node}', '--disable-warning=ExperimentalWarning', '--v8-pool-size=1', '{drivers}/node.mjs', language]
}

function debian(...packages: readonly string[]): string {
  return `Install it in the root file system of the sandboxes; on Debian: apt-get install ${packages.join(' ')}.`
}

/**
 * Languages that need no setting up but their programs in the root file system; those after bash are usually not there.
 * What a compiler makes lies beside the code, where nothing is brought out from.
 */
export const builtInLanguages: readonly Language[] = [
  {
    name: 'python',
    aliases: ['py', 'python3'],
    file: 'main.py',
    needs: ['python3'],
    install: debian('python3'),
    // Without -I or -E: then PYTHONHASHSEED would not count, and nothing else is in the environment at that time.
    driver: ['python3', '-s', '-B', '-X', 'utf8', '{drivers}/python.py'],
    gateway: true,
  },
  { name: 'javascript', aliases: ['js', 'node', 'nodejs'], file: 'main.js', driver: nodeDriver('javascript') },
  { name: 'typescript', aliases: ['ts'], file: 'main.ts', driver: nodeDriver('typescript') },
  {
    name: 'bash',
    aliases: ['sh', 'shell'],
    file: 'main.sh',
    needs: ['bash'],
    install: debian('bash'),
    command: ['bash', '{file}'],
  },
  {
    name: 'go',
    aliases: ['golang'],
    file: 'main.go',
    needs: ['go'],
    install: debian('golang-go'),
    // Variables as words of `env`, because only words know where the code lies; nothing is ever downloaded.
    compile: [
      'env',
      'GOCACHE={file}.cache',
      'GOPATH={file}.path',
      ...['GOPROXY=off', 'GOTOOLCHAIN=local', 'GOFLAGS=-mod=mod', 'GOTELEMETRY=off', 'CGO_ENABLED=0'],
      ...['go', 'build', '-o', '{file}.out', '{file}'],
    ],
    command: ['{file}.out'],
  },
  {
    name: 'ruby',
    aliases: ['rb'],
    file: 'main.rb',
    needs: ['ruby'],
    install: debian('ruby'),
    command: ['ruby', '{file}'],
  },
  {
    name: 'c',
    file: 'main.c',
    needs: ['cc'],
    install: debian('gcc', 'libc6-dev'),
    compile: ['cc', '-O1', '-o', '{file}.out', '{file}', '-lm'],
    command: ['{file}.out'],
  },
  {
    name: 'cpp',
    aliases: ['c++', 'cxx'],
    file: 'main.cpp',
    needs: ['c++'],
    install: debian('g++'),
    compile: ['c++', '-O1', '-o', '{file}.out', '{file}'],
    command: ['{file}.out'],
  },
  {
    name: 'java',
    file: 'Main.java',
    needs: ['java', 'javac'],
    install: debian('default-jdk-headless'),
    // One file is compiled in memory, whatever its class is called.
    command: ['java', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-XX:-UsePerfData', '{file}'],
  },
  {
    name: 'perl',
    aliases: ['pl'],
    file: 'main.pl',
    needs: ['perl'],
    install: debian('perl'),
    command: ['perl', '{file}'],
  },
  { name: 'php', file: 'main.php', needs: ['php'], install: debian('php-cli'), command: ['php', '{file}'] },
]

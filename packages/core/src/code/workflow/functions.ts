/** The number of arguments of a workflow function; every argument is awaited. */
export interface WorkflowFunction {
  readonly least: number
  readonly most: number
}

/** The functions that a workflow may call: those of every program over tools, and a few for values. */
export const workflowFunctions: ReadonlyMap<string, WorkflowFunction> = new Map([
  ['run', { least: 1, most: 2 }],
  ['chain', { least: 1, most: 2 }],
  ['search', { least: 1, most: 2 }],
  ['describe', { least: 1, most: 2 }],
  ['examples', { least: 1, most: 1 }],
  ['print', { least: 0, most: 32 }],
  ['sleep', { least: 1, most: 1 }],
  ['all', { least: 1, most: 256 }],
  ['len', { least: 1, most: 1 }],
  ['keys', { least: 1, most: 1 }],
  ['values', { least: 1, most: 1 }],
  ['append', { least: 2, most: 2 }],
  ['join', { least: 2, most: 2 }],
  ['contains', { least: 2, most: 2 }],
  ['range', { least: 1, most: 2 }],
  ['text', { least: 1, most: 1 }],
  ['number', { least: 1, most: 1 }],
])

const signs = ['get', 'add', 'num', 'list', 'less', 'more', 'in', 'error', 'retry']
const shared = ['run', 'chain', 'search', 'describe', 'examples', 'print', 'sleep']

/** Declarations of the helpers for the compiler: calls have the types of any program, everything else is `any`. */
export const workflowDeclarations = [
  ...signs.map((name) => `declare const $${name}: any`),
  ...[...workflowFunctions.keys()].map(
    (name) => `declare const $f_${name}: ${shared.includes(name) ? `typeof ${name}` : 'any'}`,
  ),
  '',
].join('\n')

/**
 * JavaScript of the operators and functions, in one line, because it precedes the first line of the workflow. Only own
 * members are read, so that no name reaches a built-in of JavaScript.
 */
export const workflowPrelude = `
const $fail=(m)=>{throw new TypeError(m)};
const $what=(v)=>v===null?"null":Array.isArray(v)?"a list":typeof v==="object"?"an object":typeof v==="string"?"a text":"a "+typeof v;
const $get=(o,k)=>{if(o===null||o===undefined)$fail("There is no member "+JSON.stringify(k)+" of null.");
if(typeof o==="string"||Array.isArray(o))return typeof k==="number"?o[k]??null:k==="length"?o.length:null;
return typeof o==="object"&&Object.hasOwn(o,k)?o[k]??null:null};
const $add=(a,b)=>typeof a==="number"&&typeof b==="number"?a+b:Array.isArray(a)&&Array.isArray(b)?[...a,...b]:
typeof a==="string"||typeof b==="string"?$text(a)+$text(b):$fail($what(a)+" and "+$what(b)+" cannot be added.");
const $num=(v)=>typeof v==="number"?v:$fail("A number is needed, and this is "+$what(v)+".");
const $text=(v)=>typeof v==="string"?v:JSON.stringify(v);
const $list=(v)=>Array.isArray(v)?v:$fail("A list is needed, and this is "+$what(v)+".");
const $less=(a,b)=>typeof a===typeof b&&(typeof a==="number"||typeof a==="string")?a<b:$fail($what(a)+" and "+$what(b)+" have no order.");
const $more=(a,b)=>$less(b,a);const $in=(a,b)=>$f_contains(b,a);
const $f_len=(v)=>typeof v==="string"||Array.isArray(v)?v.length:Object.keys(v??{}).length;
const $f_keys=(v)=>Object.keys(v??{});const $f_values=(v)=>Object.values(v??{});
const $f_append=(l,v)=>[...$list(l),v];const $f_join=(l,s)=>$list(l).map($text).join($text(s));
const $f_contains=(l,v)=>typeof l==="string"?l.includes($text(v)):Array.isArray(l)?l.includes(v):Object.hasOwn(l??{},v);
const $f_range=(a,b)=>{const[f,t]=b===undefined?[0,a]:[a,b];const n=Math.max(0,Math.ceil($num(t)-$num(f)));
if(n>100000)$fail("A range has at most 100000 numbers.");return Array.from({length:n},(_,i)=>f+i)};
const $f_text=$text;const $f_number=(v)=>{const n=Number(v);return Number.isFinite(n)?n:$fail("This is no number: "+$text(v))};
const $f_run=run,$f_chain=chain,$f_search=search,$f_describe=describe,$f_examples=examples,$f_print=print,$f_sleep=sleep;
const $error=(e)=>({code:e?.code??"CODE_FAILED",message:String(e?.message??e),retryable:e?.retryable===true,details:e?.details??null});
const $retry=async(n,d,e)=>{if(e?.code==="OUTCOME_UNKNOWN")throw e;if(d>0)await sleep(d*2**(n-1))};
`.replaceAll('\n', '')

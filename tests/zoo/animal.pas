{ Free Pascal: threads, exceptions by setjmp, reference-counted strings, a heap manager of its own.
  See zoo.h for what a round is. }
program animal;
{$mode objfpc}{$H+}
uses cthreads, SysUtils;

type
  TTree = class
    Left, Right: TTree;
    constructor Create(Depth: Integer);
    destructor Destroy; override;
    function Nodes: Integer;
  end;
  EStep = class(Exception);

constructor TTree.Create(Depth: Integer);
begin
  if Depth > 0 then begin
    Left := TTree.Create(Depth - 1);
    Right := TTree.Create(Depth - 1);
  end;
end;

destructor TTree.Destroy;
begin
  Left.Free;
  Right.Free;
end;

function TTree.Nodes: Integer;
begin
  Result := 1;
  if Left <> nil then Result := Result + Left.Nodes + Right.Nodes;
end;

function Fib(N: Integer): Integer;
begin
  if N < 2 then Result := N else Result := Fib(N - 1) + Fib(N - 2);
end;

function Worker(I: Integer): Integer;
var K: Integer;
begin
  Result := 0;
  for K := 0 to 19 do
    try
      raise EStep.Create(IntToStr(I * K));
    except
      on Step: EStep do Result := Result + StrToInt(Step.Message);
    end;
end;

function FirstHalf(Sum: Pointer): PtrInt;
var I: Integer;
begin
  for I := 0 to 24 do PInteger(Sum)^ := PInteger(Sum)^ + Worker(I);
  Result := 0;
end;

function RoundIsRight: Boolean;
var
  Thread: TThreadID;
  Tree: TTree;
  I, Sum: Integer;
  Other: Integer = 0;
begin
  Thread := BeginThread(@FirstHalf, @Other);
  Tree := TTree.Create(12);
  Sum := Tree.Nodes + Fib(20);
  Tree.Free;
  for I := 25 to 49 do Sum := Sum + Worker(I);
  WaitForThreadTerminate(Thread, 0);
  Result := Sum + Other = 247706;
end;

var Rounds, Wrong: Integer;
begin
  if not RoundIsRight then Halt(1);
  WriteLn('ready');
  Flush(Output);
  Rounds := 0;
  Wrong := 0;
  while FileExists('keep') do begin
    Inc(Rounds);
    if not RoundIsRight then Inc(Wrong);
  end;
  WriteLn('rounds ', Rounds, ' wrong ', Wrong);
end.

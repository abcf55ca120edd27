--  Ada (GNAT): tasks with rendezvous, a protected object, exceptions, heap objects freed by hand.
--  See zoo.h for what a round is.
with Ada.Directories; use Ada.Directories;
with Ada.Text_IO;     use Ada.Text_IO;
with Ada.Command_Line;
with Ada.Unchecked_Deallocation;

procedure Animal is
   type Tree;
   type Link is access Tree;
   type Tree is record
      Left, Right : Link;
   end record;
   procedure Free is new Ada.Unchecked_Deallocation (Tree, Link);
   Step_Done : exception;

   function Grow (Depth : Integer) return Link is
     (if Depth < 0 then null else new Tree'(Grow (Depth - 1), Grow (Depth - 1)));

   function Fell (Top : in out Link) return Integer is
      Nodes : Integer := 1;
   begin
      if Top = null then
         return 0;
      end if;
      Nodes := Nodes + Fell (Top.Left) + Fell (Top.Right);
      Free (Top);
      return Nodes;
   end Fell;

   function Fib (N : Integer) return Integer is (if N < 2 then N else Fib (N - 1) + Fib (N - 2));

   protected Total is
      procedure Add (Value : Integer);
      procedure Take (Value : out Integer);
   private
      Sum : Integer := 0;
   end Total;

   protected body Total is
      procedure Add (Value : Integer) is
      begin
         Sum := Sum + Value;
      end Add;

      procedure Take (Value : out Integer) is
      begin
         Value := Sum;
         Sum := 0;
      end Take;
   end Total;

   function Round_Is_Right return Boolean is
      Own, Sum : Integer;
      Top : Link := Grow (12);
   begin
      declare
         task type Worker is
            entry Start (Number : Integer);
         end Worker;

         task body Worker is
            I : Integer;
         begin
            accept Start (Number : Integer) do
               I := Number;
            end Start;
            for K in 0 .. 19 loop
               begin
                  raise Step_Done;
               exception
                  when Step_Done => Total.Add (I * K);
               end;
            end loop;
         end Worker;

         Workers : array (0 .. 3) of Worker;
      begin
         for I in Workers'Range loop
            Workers (I).Start (I);
         end loop;
         for I in 4 .. 49 loop
            for K in 0 .. 19 loop
               Total.Add (I * K);
            end loop;
         end loop;
         Own := Fell (Top) + Fib (20);
      end;
      Total.Take (Sum);
      return Own + Sum = 247706;
   end Round_Is_Right;

   Rounds, Wrong : Integer := 0;
begin
   if not Round_Is_Right then
      Ada.Command_Line.Set_Exit_Status (1);
      return;
   end if;
   Put_Line ("ready");
   Flush;
   while Exists ("keep") loop
      Rounds := Rounds + 1;
      Wrong := Wrong + (if Round_Is_Right then 0 else 1);
   end loop;
   Put_Line ("rounds" & Rounds'Image & " wrong" & Wrong'Image);
end Animal;
